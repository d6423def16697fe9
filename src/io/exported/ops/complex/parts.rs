//! Operators that are linear in their complex arguments, by those of real numbers.

use super::joined;
use crate::io::exported::call::{Arg, Call, Results, Run, Value};
use crate::io::exported::schema;
use crate::{Error, Result, Tensor};
use std::sync::Arc;

/// How an operator of real numbers serves complex ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Real and imaginary parts are apart: they are moved, chosen or added.
    Apart,
    /// Linear in each complex argument: a product.
    Multilinear,
    /// Of magnitudes alone.
    Magnitude,
}

const APART: &[&str] = &[
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat channel_shuffle chunk",
    "_chunk_cat col2im column_stack combinations concat constant_pad_nd copy cumsum diag diag_embed",
    "diagflat diagonal diagonal_scatter diff dsplit dstack expand_as fft_fftshift fft_ifftshift fill flip fliplr flipud",
    "gather hsplit hstack im2col index_add index_copy index_fill index_put index_select linalg_diagonal mT masked_fill",
    "masked_scatter masked_select mean meshgrid moveaxis movedim narrow numpy_T pad pixel_shuffle pixel_unshuffle",
    "positive put ravel repeat repeat_interleave reshape_as resolve_neg roll rot90 rsub scatter scatter_add",
    "select_scatter slice_scatter split split_with_sizes squeeze stack sum sum_to_size swapaxes swapdims t take",
    "take_along_dim tensor_split tile trace tril triu unbind unflatten unfold unsafe_chunk",
    "_unsafe_index_put unsafe_split unsafe_split_with_sizes view_as vsplit vstack where zero",
];

const MULTILINEAR: &[&str] = &[
    "bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution cross dot",
    "einsum ger inner kron linalg_cross linalg_multi_dot matmul mm mv outer tensordot",
];

const MAGNITUDE: &[&str] = &[
    "all any argwhere count_nonzero frobenius_norm linalg_vector_norm logical_and logical_not logical_or",
    "logical_xor nonzero nonzero_numpy nonzero_static norm",
];

/// The most complex factors of a product, which is of 2ⁿ products of parts.
const MOST: u32 = 8;

/// Arguments that hold numbers: a real one has an imaginary part of 0.
const NUMBERS: [&str; 7] = [
    "self", "other", "tensors", "src", "values", "value", "input",
];

/// The rule of an operator such as `aten.cat.default`, or its form that writes its first argument.
pub(super) fn rule(target: &str) -> Option<Rule> {
    let name = target.strip_prefix("aten.")?.split('.').next()?;
    let plain = name.strip_suffix('_').unwrap_or(name);
    let viewed = plain.strip_suffix("_copy");
    let holds = |lists: &[&str]| {
        let mut names = lists.iter().flat_map(|list| list.split(' '));
        names.any(|of| of == plain || Some(of) == viewed)
    };
    [
        (APART, Rule::Apart),
        (MULTILINEAR, Rule::Multilinear),
        (MAGNITUDE, Rule::Magnitude),
    ]
    .into_iter()
    .find_map(|(lists, rule)| holds(lists).then_some(rule))
}

impl Rule {
    /// Runs an operator of real numbers on complex ones.
    pub(super) fn run(self, run: Run, c: &Call<'_>) -> Results {
        match self {
            Rule::Apart => apart(run, c),
            Rule::Multilinear => multilinear(run, c),
            Rule::Magnitude => {
                let (args, values) = replaced(c, &mut |_| Part::Magnitude, false);
                of_real(run, c, &args, &values)
            }
        }
    }
}

type Args = Vec<(Arc<str>, Arg)>;

fn of_real(run: Run, c: &Call<'_>, args: &Args, values: &[Value]) -> Results {
    run(&Call {
        args,
        values,
        device: c.device,
    })
}

/// What stands for a complex argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Real,
    Imaginary,
    Magnitude,
}

/// Arguments with a part in place of each complex one: `of` is given how many were before it. With `imaginary`, real numbers
/// become 0.
fn replaced(
    c: &Call<'_>,
    of: &mut dyn FnMut(usize) -> Part,
    imaginary: bool,
) -> (Args, Vec<Value>) {
    let mut found = Replaced {
        c,
        of,
        count: 0,
        values: Vec::new(),
    };
    let args = c.args.iter().map(|(name, arg)| {
        let is_tensor =
            matches!(arg, Arg::Slot(slot) if matches!(c.values[*slot], Value::Tensor(_)));
        let zero = NUMBERS.contains(&&**name) || &**name == "source" && is_tensor;
        let zero = imaginary && zero;
        (name.clone(), found.arg(arg, zero))
    });
    let args = args.collect();
    (args, found.values)
}

struct Replaced<'a, 'c> {
    c: &'a Call<'c>,
    of: &'a mut dyn FnMut(usize) -> Part,
    count: usize,
    values: Vec<Value>,
}

impl Replaced<'_, '_> {
    fn next(&mut self) -> Part {
        self.count += 1;
        (self.of)(self.count - 1)
    }

    fn arg(&mut self, arg: &Arg, zero: bool) -> Arg {
        let value = match arg {
            Arg::List(all) => {
                return Arg::List(all.iter().map(|arg| self.arg(arg, zero)).collect());
            }
            &Arg::Complex(re, im) => {
                return Arg::Float(match self.next() {
                    Part::Real => re,
                    Part::Imaginary => im,
                    Part::Magnitude => re.hypot(im),
                });
            }
            Arg::Slot(slot) => match &self.c.values[*slot] {
                Value::Complex(pairs) => Value::Tensor(match self.next() {
                    Part::Real => pairs.select(-1, 0),
                    Part::Imaginary => pairs.select(-1, 1),
                    Part::Magnitude => pairs.select(-1, 0).hypot(pairs.select(-1, 1)),
                }),
                Value::Tensor(x) if zero => Value::Tensor(x.zeros_like()),
                Value::Int(_) | Value::Float(_) | Value::Bool(_) if zero => Value::Int(0),
                value => value.clone(),
            },
            Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) if zero => return Arg::Int(0),
            // Parts have a dtype of their own.
            &Arg::DType(number) => return Arg::DType(schema::number_of_part(number)),
            other => return other.clone(),
        };
        self.values.push(value);
        Arg::Slot(self.values.len() - 1)
    }
}

fn apart(run: Run, c: &Call<'_>) -> Results {
    let of = |part: Part| {
        let (args, values) = replaced(c, &mut |_| part, part == Part::Imaginary);
        of_real(run, c, &args, &values)
    };
    let (re, im) = (of(Part::Real)?, of(Part::Imaginary)?);
    let both = re.into_iter().zip(im).map(|both| match both {
        (Value::Tensor(re), Value::Tensor(im)) => joined(&re, &im),
        (other, _) => Ok(vec![other]),
    });
    both.collect::<Result<Vec<_>>>().map(|all| all.concat())
}

/// Σ over the choices of a part of each complex argument, times the imaginary unit as often as that is the imaginary one.
fn multilinear(run: Run, c: &Call<'_>) -> Results {
    if c.has("bias") {
        return biased(run, c);
    }
    let mut count = 0u32;
    let mut counted = |_| {
        count += 1;
        Part::Real
    };
    replaced(c, &mut counted, false);
    if count > MOST {
        let what = format!("a product of {count} complex tensors");
        return Err(Error::unsupported(what));
    }
    let mut sums: [Option<Tensor>; 2] = [None, None];
    for choice in 0..1u32 << count {
        let mut part = |at: usize| match choice >> at & 1 {
            0 => Part::Real,
            _ => Part::Imaginary,
        };
        let (args, values) = replaced(c, &mut part, false);
        let found = of_real(run, c, &args, &values)?;
        let [Value::Tensor(found)] = &found[..] else {
            return Err(Error::unsupported("several results of complex numbers"));
        };
        let turns = choice.count_ones();
        let signed = if turns & 2 == 0 {
            found.clone()
        } else {
            -found
        };
        let sum = &mut sums[(turns & 1) as usize];
        *sum = Some(match sum.take() {
            Some(sum) => sum + signed,
            None => signed,
        });
    }
    match sums {
        [Some(re), Some(im)] => joined(&re, &im),
        _ => Err(Error::unsupported(
            "real numbers where complex ones are expected",
        )),
    }
}

/// A convolution, and a number for each channel behind it.
fn biased(run: Run, c: &Call<'_>) -> Results {
    let (Some(bias), Some(weight)) = (c.complex("bias"), c.complex("weight")) else {
        return Err(Error::unsupported(
            "complex numbers with a bias of real ones",
        ));
    };
    let rest = c.args.iter().map(|(name, arg)| match &**name {
        "bias" => (name.clone(), Arg::None),
        _ => (name.clone(), arg.clone()),
    });
    let rest: Args = rest.collect();
    let found = multilinear(run, &Call { args: &rest, ..*c })?;
    let [Value::Complex(found)] = &found[..] else {
        return Err(Error::internal(
            "a product of complex numbers is one tensor",
        ));
    };
    let mut shape = vec![1; weight.rank() - 1];
    (shape[0], shape[weight.rank() - 2]) = (bias.dim(0)?, 2);
    Ok(vec![Value::Complex(found + bias.reshape(shape))])
}
