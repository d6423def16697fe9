//! Other shapes and orders of the same elements.

use super::Table;
use crate::io::exported::call::{Call, Results, Value, all, one};
use crate::{Error, Result, Tensor};

/// A dimension counted from the front.
pub(super) fn wrapped(dim: isize, rank: usize) -> Result<usize> {
    let at = if dim < 0 {
        dim + rank.max(1) as isize
    } else {
        dim
    };
    let found = usize::try_from(at).ok().filter(|&dim| dim < rank.max(1));
    found.ok_or_else(|| Error::argument(format!("dimension {dim} of a tensor of rank {rank}")))
}

fn shaped(c: &Call<'_>, name: &str) -> Results {
    let sizes = c.ints(name)?.unwrap_or_default();
    one(c.tensor("self")?.reshape(sizes))
}

/// Sizes as `expand` takes them: −1 keeps a dimension.
fn expanded(c: &Call<'_>, name: &str) -> Results {
    one(c.tensor("self")?.expand(c.ints(name)?.unwrap_or_default()))
}

/// Dimensions of size 1 taken away, those of a list or all.
fn squeezed(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let mut dims: Vec<usize> = match c.has("dim") {
        true => c
            .dims("dim")?
            .into_iter()
            .map(|dim| wrapped(dim, x.rank()))
            .collect::<Result<_>>()?,
        false => (0..x.rank()).collect(),
    };
    dims.retain(|&dim| dim < x.rank() && x.dims()[dim] == 1);
    let left = (0..x.rank()).filter(|dim| !dims.contains(dim));
    let left: Vec<usize> = left.map(|dim| x.dims()[dim]).collect();
    one(x.reshape(left))
}

fn moved(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let wrap = |name| -> Result<Vec<usize>> {
        c.dims(name)?
            .into_iter()
            .map(|dim| wrapped(dim, x.rank()))
            .collect()
    };
    let (from, to) = (wrap("source")?, wrap("destination")?);
    let mut order = vec![usize::MAX; x.rank()];
    for (&from, &to) in from.iter().zip(&to) {
        order[to] = from;
    }
    let mut rest = (0..x.rank()).filter(|dim| !from.contains(dim));
    for place in order.iter_mut().filter(|place| **place == usize::MAX) {
        *place = rest.next().unwrap_or(0);
    }
    one(x.permute(order))
}

/// Start and end of a slice, whose ends beyond the tensor are clamped.
fn sliced(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (dim, step) = (c.dim_or("dim", 0)?, c.size_or("step", 1)?);
    let (start, end) = (c.dim_or("start", 0)?, c.dim_or("end", isize::MAX)?);
    one(x.slice(dim, start, end, step))
}

fn in_parts(c: &Call<'_>) -> Results {
    let (x, dim) = (c.tensor("self")?, c.dim_or("dim", 0)?);
    for name in ["split_sizes", "split_size"] {
        if let Some(sizes) = c.ints(name)? {
            let is_list = matches!(c.arg(name), Some(crate::io::exported::call::Arg::List(_)));
            if is_list {
                return all(x.split(&c.sizes(name)?, dim));
            }
            let (n, size) = (x.dim(dim)?, sizes[0].max(0) as usize);
            let parts = match size {
                0 => vec![0],
                size => {
                    let starts = (0..n.max(1)).step_by(size);
                    starts.map(|start| size.min(n - start)).collect()
                }
            };
            return all(x.split(&parts, dim));
        }
    }
    Err(Error::argument("the sizes of the parts are missing"))
}

/// Parts of nearly equal sizes, or parts that begin at positions.
fn near_parts(c: &Call<'_>) -> Results {
    parts_along(c, c.dim_or("dim", 0)?)
}

fn parts_along(c: &Call<'_>, dim: isize) -> Results {
    let x = c.tensor("self")?;
    let n = x.dim(dim)?;
    let mut sizes = Vec::new();
    if c.has("sections") {
        let parts = c.size_or("sections", 1)?.max(1);
        sizes.extend((0..parts).map(|i| n / parts + usize::from(i < n % parts)));
    } else {
        let mut start = 0;
        for end in c.dims("indices")?.into_iter().chain([n as isize]) {
            let end = if end < 0 { end + n as isize } else { end };
            let end = (end.max(0) as usize).clamp(start, n);
            sizes.push(end - start);
            start = end;
        }
    }
    all(x.split(&sizes, dim))
}

fn unbound(c: &Call<'_>) -> Results {
    let (x, dim) = (c.tensor("self")?, c.dim_or("dim", 0)?);
    let n = x.dim(dim)? as isize;
    all((0..n).map(|i| x.select(dim, i)))
}

/// One dimension as several.
fn unflattened(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let dim = wrapped(c.dim_or("dim", 0)?, x.rank())?;
    let mut sizes: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
    let mut parts = c.ints("sizes")?.unwrap_or_default();
    // The whole shape would have two unknown sizes where another is 0.
    let known: i64 = parts.iter().filter(|&&n| n >= 0).product();
    if known > 0 {
        parts
            .iter_mut()
            .filter(|n| **n == -1)
            .for_each(|n| *n = sizes[dim] / known);
    }
    sizes.splice(dim..=dim, parts);
    one(x.reshape(sizes))
}

/// The most elements of a window, whose places are listed.
const LARGEST_WINDOW: usize = 1 << 31;

/// A tensor's elements in the order of its memory, and the places of a window on them, one after the other.
pub(super) struct Window {
    pub memory: Tensor,
    pub places: Tensor,
    /// The dimensions, from the outermost in memory to the innermost.
    order: Vec<usize>,
}

impl Window {
    /// The window that an operator names by sizes, strides and the place of its first element.
    pub fn of(c: &Call<'_>) -> Result<Window> {
        let x = c.tensor("self")?;
        let (size, stride) = (c.sizes("size")?, c.sizes("stride")?);
        let offset = c.int_or("%offset", 0)?;
        let first = c.int_or("storage_offset", offset)?.saturating_sub(offset);
        if first < 0 {
            return Err(Error::unsupported(
                "a window that begins in front of a tensor's first element",
            ));
        }
        let count = size
            .iter()
            .try_fold(1usize, |count, &n| count.checked_mul(n));
        if count.is_none_or(|count| count > LARGEST_WINDOW) {
            return Err(Error::unsupported(format!("a window of {size:?} elements")));
        }
        let mut at = vec![first];
        for (&n, &step) in size.iter().zip(&stride) {
            at = at
                .iter()
                .flat_map(|&from| {
                    (0..n as i64).map(move |i| i.saturating_mul(step as i64).saturating_add(from))
                })
                .collect();
        }
        let (n, order) = (at.len(), c.sizes("%order")?);
        let beyond = at
            .iter()
            .max()
            .is_some_and(|&place| place >= x.numel() as i64);
        if beyond {
            return Err(Error::unsupported(
                "a window that reaches beyond a tensor's last element",
            ));
        }
        Ok(Window {
            memory: x.permute(&*order).reshape([-1]),
            places: Tensor::from_vec(at, n, c.device),
            order,
        })
    }

    /// Elements in the order of a tensor's memory as that tensor.
    pub fn as_tensor(&self, memory: &Tensor, x: &Tensor) -> Tensor {
        let sizes: Vec<usize> = self.order.iter().map(|&dim| x.dims()[dim]).collect();
        let mut back = vec![0; self.order.len()];
        for (at, &dim) in self.order.iter().enumerate() {
            back[dim] = at;
        }
        memory.reshape(sizes).permute(back)
    }
}

/// A window on memory.
fn strided(c: &Call<'_>) -> Results {
    let window = Window::of(c)?;
    let picked = window.memory.index_select(0, &window.places);
    one(picked.reshape(c.sizes("size")?))
}

fn unfolded(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (size, step) = (c.size_or("size", 1)?, c.size_or("step", 1)?);
    one(x.unfold(c.dim_or("dimension", 0)?, size, step))
}

fn diagonal(c: &Call<'_>) -> Results {
    let (a, b) = (c.dim_or("dim1", 0)?, c.dim_or("dim2", 1)?);
    one(c.tensor("self")?.diagonal(c.dim_or("offset", 0)?, a, b))
}

fn swapped(c: &Call<'_>, a: &str, b: &str) -> Results {
    let x = c.tensor("self")?;
    if x.rank() == 0 {
        return one(x.clone());
    }
    one(x.transpose(c.dim_or(a, 0)?, c.dim_or(b, 0)?))
}

fn turned(x: &Tensor) -> Tensor {
    match x.rank() {
        0 | 1 => x.clone(),
        _ => x.transpose(0, 1),
    }
}

fn strides_of(x: &Tensor) -> Vec<i64> {
    let mut step = 1;
    let mut strides: Vec<i64> = Vec::new();
    for &size in x.dims().iter().rev() {
        strides.push(step);
        step *= size.max(1) as i64;
    }
    strides.reverse();
    strides
}

pub(super) const TABLE: Table = &[
    ("view", "default", |c| shaped(c, "size")),
    ("_unsafe_view", "default", |c| shaped(c, "size")),
    ("reshape", "default", |c| shaped(c, "shape")),
    ("_reshape_alias", "default", |c| shaped(c, "size")),
    ("view_as", "default", |c| {
        one(c.tensor("self")?.reshape(c.tensor("other")?.dims()))
    }),
    ("reshape_as", "default", |c| {
        one(c.tensor("self")?.reshape(c.tensor("other")?.dims()))
    }),
    ("ravel", "default", |c| one(c.tensor("self")?.reshape([-1]))),
    ("flatten", "using_ints", |c| {
        let x = c.tensor("self")?;
        one(match x.rank() {
            0 => x.reshape([1]),
            _ => x.flatten(c.dim_or("start_dim", 0)?, c.dim_or("end_dim", -1)?),
        })
    }),
    ("unflatten", "int", unflattened),
    ("permute", "default", |c| {
        one(c.tensor("self")?.permute(c.dims("dims")?))
    }),
    ("transpose", "int", |c| swapped(c, "dim0", "dim1")),
    ("swapaxes", "default", |c| swapped(c, "axis0", "axis1")),
    ("swapdims", "default", |c| swapped(c, "dim0", "dim1")),
    ("t", "default", |c| one(turned(c.tensor("self")?))),
    ("numpy_T", "default", |c| {
        let x = c.tensor("self")?;
        one(x.permute((0..x.rank()).rev().collect::<Vec<_>>()))
    }),
    ("mT", "default", |c| {
        one(c.tensor("self")?.transpose(-2, -1))
    }),
    ("matrix_H", "default", |c| {
        one(c.tensor("self")?.transpose(-2, -1))
    }),
    ("mH", "default", |c| {
        one(c.tensor("self")?.transpose(-2, -1))
    }),
    ("hsplit", "int array", |c| {
        let dim = isize::from(c.tensor("self")?.rank() > 1);
        parts_along(c, dim)
    }),
    ("vsplit", "int array", |c| parts_along(c, 0)),
    ("dsplit", "int array", |c| parts_along(c, 2)),
    ("adjoint", "default", |c| {
        one(c.tensor("self")?.transpose(-2, -1))
    }),
    ("movedim", "int intlist", moved),
    ("moveaxis", "int intlist", moved),
    ("unsqueeze", "default", |c| {
        one(c.tensor("self")?.unsqueeze(c.dim_or("dim", 0)?))
    }),
    ("squeeze", "default dim dims", squeezed),
    ("expand", "default", |c| expanded(c, "size")),
    ("broadcast_to", "default", |c| expanded(c, "size")),
    ("expand_as", "default", |c| {
        one(c.tensor("self")?.expand(c.tensor("other")?.shape()))
    }),
    ("slice", "Tensor", sliced),
    ("select", "int", |c| {
        one(c
            .tensor("self")?
            .select(c.dim_or("dim", 0)?, c.dim_or("index", 0)?))
    }),
    ("narrow", "default Tensor", |c| {
        let (dim, start) = (c.dim_or("dim", 0)?, c.dim_or("start", 0)?);
        one(c
            .tensor("self")?
            .narrow(dim, start, c.size_or("length", 0)?))
    }),
    ("split", "Tensor sizes", in_parts),
    ("unsafe_split", "Tensor", in_parts),
    ("split_with_sizes", "default", in_parts),
    ("unsafe_split_with_sizes", "default", in_parts),
    ("chunk", "default", |c| {
        let n = c.size_or("chunks", 1)?;
        all(c.tensor("self")?.chunk(n, c.dim_or("dim", 0)?))
    }),
    ("unsafe_chunk", "default", |c| {
        let n = c.size_or("chunks", 1)?;
        all(c.tensor("self")?.chunk(n, c.dim_or("dim", 0)?))
    }),
    ("tensor_split", "sections indices", near_parts),
    ("unbind", "int", unbound),
    ("diagonal", "default", diagonal),
    ("linalg_diagonal", "default", |c| {
        let (a, b) = (c.dim_or("dim1", -2)?, c.dim_or("dim2", -1)?);
        one(c.tensor("A")?.diagonal(c.dim_or("offset", 0)?, a, b))
    }),
    ("unfold", "default", unfolded),
    ("as_strided", "default", strided),
    ("sym_size", "int", |c| {
        let (x, dim) = (c.tensor("self")?, c.dim_or("dim", 0)?);
        Ok(vec![Value::Int(x.dim(dim)? as i64)])
    }),
    ("sym_numel", "default", |c| {
        Ok(vec![Value::Int(c.tensor("self")?.numel() as i64)])
    }),
    ("sym_stride", "int", |c| {
        let x = c.tensor("self")?;
        let dim = wrapped(c.dim_or("dim", 0)?, x.rank())?;
        Ok(vec![Value::Int(
            strides_of(x).get(dim).copied().unwrap_or(1),
        )])
    }),
    ("sym_storage_offset", "default", |_| Ok(vec![Value::Int(0)])),
];
