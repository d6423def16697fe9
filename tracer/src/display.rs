//! Printing: `Display` shows values, `Debug` what is known without running anything.

use crate::node::Status;
use crate::trace;
use crate::{Mode, Tensor, with_mode};
use ferrotrace_runtime::{DType, Element, FloatEnvironment, Result};
use half::{bf16, f16};
use std::fmt;

/// Beyond so many elements only the edges of each dimension are shown.
const SUMMARISED: usize = 1000;
/// Elements shown at each edge of a summarised dimension.
const EDGE: usize = 3;
/// Characters of a line before it is broken.
const LINE: usize = 80;
const OPEN: &str = "tensor(";

/// The values in the manner of PyTorch: reading them flushes. Of a tensor that carries an error, the error's text; of one in
/// a branch or the body of a loop, which is recorded before it runs, its dtype and shape.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _environment = FloatEnvironment::standard();
        if trace::is_barred(self.node()) {
            let facts = &self.node().facts;
            return write!(f, "tensor(<{}{}>)", facts.dtype, facts.shape);
        }
        let cells = match cells(self) {
            Ok(cells) => cells,
            Err(error) => return write!(f, "tensor(error: {error})"),
        };
        let dims = self.sizes().dims();
        f.write_str(OPEN)?;
        if cells.texts.is_empty() {
            write!(f, "[], size={:?}", self.sizes())?;
        } else {
            Printer {
                cells: &cells,
                dims,
            }
            .block(f, 0, 0)?;
        }
        let dtype = self.dtype();
        let default = matches!(dtype, DType::F32 | DType::I64 | DType::Bool);
        if !default || cells.texts.is_empty() {
            write!(f, ", dtype={dtype}")?;
        }
        if self.device() != ferrotrace_runtime::Device::cpu() {
            write!(f, ", device={}", self.device())?;
        }
        f.write_str(")")
    }
}

/// Shape, dtype, device, state and the recorded operation. Nothing is compiled, run or read.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.node().facts;
        let mut parts = f.debug_struct("Tensor");
        match self.node().status() {
            Status::Failed => {
                parts.field("error", &self.error().map(|error| error.to_string()));
            }
            status => {
                parts.field("shape", &facts.shape);
                parts.field("dtype", &facts.dtype);
                parts.field("device", &format_args!("{}", facts.device));
                parts.field("state", &status);
                if let (Status::Pending, Some(op)) = (status, &facts.op) {
                    parts.field("op", &op.name());
                }
            }
        }
        parts.finish()
    }
}

/// The text of each element that is shown, by its row-major position, and the width of the widest.
struct Cells {
    texts: Vec<(usize, String)>,
    width: usize,
    summarised: bool,
}

impl Cells {
    /// `texts` are the texts of the elements that are shown, in order.
    fn new(dims: &[usize], texts: impl Iterator<Item = String>) -> Cells {
        let texts: Vec<(usize, String)> = shown(dims).into_iter().zip(texts).collect();
        let width = texts
            .iter()
            .map(|(_, text)| text.chars().count())
            .max()
            .unwrap_or(0);
        Cells {
            texts,
            width,
            summarised: is_summarised(dims),
        }
    }

    fn text(&self, at: usize) -> &str {
        let found = self
            .texts
            .binary_search_by_key(&at, |(position, _)| *position);
        found.map_or("", |i| &self.texts[i].1)
    }
}

fn is_summarised(dims: &[usize]) -> bool {
    dims.iter().product::<usize>() > SUMMARISED
}

/// The positions of a dimension that are shown, and whether some are left out between them.
fn edges(size: usize, summarised: bool) -> (Vec<usize>, bool) {
    if summarised && size > 2 * EDGE {
        return ((0..EDGE).chain(size - EDGE..size).collect(), true);
    }
    ((0..size).collect(), false)
}

/// The row-major positions of the elements that are shown, ascending.
fn shown(dims: &[usize]) -> Vec<usize> {
    let summarised = is_summarised(dims);
    let mut positions = vec![0];
    for &size in dims {
        let (edges, _) = edges(size, summarised);
        let next = |&at: &usize| edges.iter().map(move |i| at * size + i).collect::<Vec<_>>();
        positions = positions.iter().flat_map(next).collect();
    }
    positions
}

/// The elements that are shown, and nothing else, as a small tensor of the same rank.
fn excerpt(tensor: &Tensor) -> Tensor {
    let dims = tensor.sizes().dims();
    let summarised = is_summarised(dims);
    with_mode(Mode::Eager, || {
        let mut excerpt = tensor.clone();
        for (dim, &size) in dims.iter().enumerate() {
            let (edges, gap) = edges(size, summarised);
            if gap {
                let edges: Vec<i64> = edges.into_iter().map(|i| i as i64).collect();
                let index = Tensor::from_slice(&edges, edges.len(), &tensor.device());
                excerpt = excerpt.index_select(dim, &index);
            }
        }
        excerpt
    })
}

fn cells(tensor: &Tensor) -> Result<Cells> {
    let dims = tensor.sizes().dims();
    let shown = excerpt(tensor);
    let of = |floats: Vec<f64>| float_cells(dims, &floats);
    Ok(match tensor.dtype() {
        DType::Bool => plain_cells::<bool>(&shown, dims)?,
        DType::U8 => plain_cells::<u8>(&shown, dims)?,
        DType::I8 => plain_cells::<i8>(&shown, dims)?,
        DType::I16 => plain_cells::<i16>(&shown, dims)?,
        DType::I32 => plain_cells::<i32>(&shown, dims)?,
        DType::I64 => plain_cells::<i64>(&shown, dims)?,
        DType::F16 => of(shown.to_vec::<f16>()?.iter().map(|x| x.to_f64()).collect()),
        DType::BF16 => of(shown.to_vec::<bf16>()?.iter().map(|x| x.to_f64()).collect()),
        DType::F32 => of(shown.to_vec::<f32>()?.iter().map(|&x| x as f64).collect()),
        DType::F64 => of(shown.to_vec::<f64>()?),
    })
}

fn plain_cells<T: Element + fmt::Display>(shown: &Tensor, dims: &[usize]) -> Result<Cells> {
    let values = shown.to_vec::<T>()?;
    Ok(Cells::new(dims, values.iter().map(T::to_string)))
}

/// Floats: four decimals; whole numbers with a bare point; powers of ten where magnitudes differ by more than 1000,
/// exceed 1e8 or, of fractions, fall below 1e-4.
fn float_cells(dims: &[usize], values: &[f64]) -> Cells {
    let finite = || {
        let sizes = values.iter().map(|x| x.abs());
        sizes.filter(|x| x.is_finite() && *x != 0.0)
    };
    let (least, greatest) = finite().fold((f64::INFINITY, 0.0f64), |(lo, hi), x| {
        (lo.min(x), hi.max(x))
    });
    let whole = finite().all(|x| x == x.trunc());
    let any = greatest > 0.0;
    let scientific =
        any && (greatest / least > 1000.0 || greatest > 1e8 || (!whole && least < 1e-4));
    let text = |&x: &f64| match x {
        x if x.is_nan() => "nan".to_string(),
        x if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_string(),
        x if scientific => power_of_ten(x),
        x if whole => format!("{x:.0}."),
        x => format!("{x:.4}"),
    };
    Cells::new(dims, values.iter().map(text))
}

/// Four decimals and an exponent of at least two digits.
fn power_of_ten(x: f64) -> String {
    let text = format!("{x:.4e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

struct Printer<'a> {
    cells: &'a Cells,
    dims: &'a [usize],
}

impl Printer<'_> {
    /// Prints dimension `depth` and later ones, of the elements from `at` in units of that dimension.
    fn block(&self, f: &mut fmt::Formatter<'_>, depth: usize, at: usize) -> fmt::Result {
        let width = self.cells.width;
        let Some(&size) = self.dims.get(depth) else {
            return write!(f, "{:>width$}", self.cells.text(at));
        };
        let last = depth + 1 == self.dims.len();
        let (positions, gap) = edges(size, self.cells.summarised);
        let indent = OPEN.len() + depth + 1;
        let per_line = ((LINE - indent.min(LINE / 2)) / (width + 2)).max(1);
        f.write_str("[")?;
        for (i, position) in positions.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
                if !last {
                    let lines = self.dims.len() - depth - 1;
                    f.write_str(&"\n".repeat(lines))?;
                    write!(f, "{:indent$}", "")?;
                } else if i % per_line == 0 {
                    write!(f, "\n{:indent$}", "")?;
                } else {
                    f.write_str(" ")?;
                }
            }
            if gap && i == EDGE {
                f.write_str("...,")?;
                match last {
                    true => f.write_str(" ")?,
                    false => write!(f, "\n{:indent$}", "")?,
                }
            }
            self.block(f, depth + 1, at * size + position)?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Device;

    fn shown_of<T: Element>(values: Vec<T>, dims: &[usize]) -> String {
        Tensor::from_vec(values, dims, &Device::cpu()).to_string()
    }

    #[test]
    fn numbers_as_pytorch_prints_them() {
        assert_eq!(
            shown_of(vec![1.0f32, 2.5], &[2]),
            "tensor([1.0000, 2.5000])"
        );
        assert_eq!(shown_of(vec![10.0f32, 2.0], &[2]), "tensor([10.,  2.])");
        assert_eq!(
            shown_of(vec![1e-5f32, 2.0], &[2]),
            "tensor([1.0000e-05, 2.0000e+00])"
        );
        assert_eq!(shown_of(vec![f32::NAN, 1.0], &[2]), "tensor([nan,  1.])");
        assert_eq!(shown_of(vec![1i64, -2], &[2]), "tensor([ 1, -2])");
        assert_eq!(shown_of(vec![true, false], &[2]), "tensor([ true, false])");
        assert_eq!(shown_of(vec![1.5f64], &[]), "tensor(1.5000, dtype=f64)");
    }

    #[test]
    fn dimensions_are_nested_and_long_ones_cut() {
        let square = shown_of(vec![1i64, 2, 3, 4], &[2, 2]);
        assert_eq!(square, "tensor([[1, 2],\n        [3, 4]])");
        let long = shown_of((0..2000i64).collect(), &[2000]);
        assert_eq!(long, "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
        assert_eq!(
            shown_of(Vec::<f32>::new(), &[0, 2]),
            "tensor([], size=[0, 2], dtype=f32)"
        );
        let wide = Tensor::arange(0, 4000, 1, DType::I64, &Device::cpu());
        assert_eq!(
            wide.reshape([4, 1000]).t().to_string(),
            "tensor([[   0, 1000, 2000, 3000],
        [   1, 1001, 2001, 3001],
        [   2, 1002, 2002, 3002],
        ...,
        [ 997, 1997, 2997, 3997],
        [ 998, 1998, 2998, 3998],
        [ 999, 1999, 2999, 3999]])"
        );
    }

    #[test]
    fn debug_names_shape_and_state() {
        let text = format!(
            "{:?}",
            Tensor::from_vec(vec![1.0f32, 2.0], 2, &Device::cpu())
        );
        assert!(text.contains("[2]") && text.contains("F32"), "{text}");
    }
}
