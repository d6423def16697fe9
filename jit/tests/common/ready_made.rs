//! Random uses of operators that the CPU has ready-made kernels for, one a graph.

use super::{Rng, window};
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_kernels::op::{
    AdaptiveAvgPool, ArgSort, ArgTopK, Attention, Cat, Expand, Flip, Full, Index, IndexPut,
    Interpolate, Scan, Scatter, Sort, TopK,
};
use ferrotrace_kernels::{
    Array, Composite, ConvSpec, Op, OpBuilder, Operand, PoolKind, PoolSpec, ScanKind, ScatterMode,
    ValueId,
};
use ferrotrace_runtime::{DType, Device, Scalar, Shape};
use smallvec::SmallVec;

/// A graph of one such operator, its inputs, and how far its result may be off, relative to the greatest element.
pub struct Use {
    pub graph: Graph,
    pub arrays: Vec<Array>,
    pub tolerance: f64,
}

/// The kinds of operators drawn.
pub const KINDS: u64 = 12;

struct Draft {
    rng: Rng,
    graph: Graph,
    arrays: Vec<Array>,
    device: Device,
}

impl Draft {
    /// An input of small numbers.
    fn input(&mut self, shape: &[usize], dtype: DType) -> ValueId {
        let strided = self.rng.chance(30);
        let mut value = |rng: &mut Rng| match dtype {
            DType::Bool => rng.below(2) as f64,
            DType::U8 => rng.below(7) as f64,
            dtype if dtype.is_int() => rng.between(-3, 3) as f64,
            _ => rng.between(-16, 16) as f64 / 8.0,
        };
        let array = window(&mut self.rng, shape, dtype, strided, &mut value);
        self.keep(array)
    }

    /// Indices below `size`, some counted from the end: an input, or one in another order of elements.
    fn indices(&mut self, shape: &[usize], size: usize) -> ValueId {
        let size = size as i64;
        let mut value = |rng: &mut Rng| match rng.chance(20) {
            true => -rng.between(1, size) as f64,
            false => rng.between(0, size - 1) as f64,
        };
        let dtype = self.rng.pick(&[DType::I64, DType::I32]);
        let array = window(&mut self.rng, shape, dtype, false, &mut value);
        let index = self.keep(array);
        if shape.is_empty() || !self.rng.chance(30) {
            return index;
        }
        let flip = Op::from(Flip { mask: 1 });
        self.graph.push(flip, &[index.into()]).expect("it fits")
    }

    fn keep(&mut self, array: Array) -> ValueId {
        let id = self.graph.input(&array.layout, array.dtype, &self.device);
        self.arrays.push(array);
        id
    }

    fn list(&mut self, n: usize, of: &[usize]) -> SmallVec<[usize; 3]> {
        (0..n).map(|_| self.rng.pick(of)).collect()
    }

    fn shape(&mut self) -> Vec<usize> {
        let rank = self.rng.below(4);
        (0..rank)
            .map(|_| self.rng.pick(&[1, 2, 3, 5, 9, 40]))
            .collect()
    }

    fn float(&mut self) -> DType {
        self.rng
            .pick(&[DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16])
    }

    fn any(&mut self) -> DType {
        self.rng.pick(&DType::ALL)
    }

    fn conv(&mut self, transposed: bool) -> (Op, Vec<Operand>) {
        let spatial = 1 + self.rng.below(3);
        let groups = self.rng.pick(&[1, 1, 2, 3]);
        let (taken, given) = (self.rng.pick(&[1, 2, 4]), self.rng.pick(&[1, 2, 5]));
        let dtype = match self.rng.chance(80) {
            true => self.float(),
            false => self.rng.pick(&[DType::I32, DType::I8, DType::U8]),
        };
        let stride = self.list(spatial, &[1, 1, 2, 3, 5]);
        let kernel = self.list(spatial, &[1, 2, 3, 4]);
        let dilation = self.list(spatial, &[1, 1, 2]);
        let output_padding = match transposed {
            true => (0..spatial)
                .map(|i| self.rng.below(stride[i].max(dilation[i])))
                .collect(),
            false => SmallVec::from_elem(0, spatial),
        };
        let mut sizes = vec![self.rng.pick(&[1, 2, 3]), groups * taken];
        sizes.extend(self.list(spatial, &[5, 6, 9]));
        if self.rng.chance(20) {
            sizes.remove(0);
        }
        let mut weight = match transposed {
            true => vec![groups * taken, given],
            false => vec![groups * given, taken],
        };
        weight.extend_from_slice(&kernel);
        let spec = ConvSpec {
            padding: self.list(spatial, &[0, 1, 2]),
            stride,
            dilation,
            output_padding,
            groups,
            transposed,
        };
        let args = vec![
            self.input(&sizes, dtype).into(),
            self.input(&weight, dtype).into(),
        ];
        (Op::Conv(Box::new(spec)), args)
    }

    fn pool(&mut self) -> (Op, Vec<Operand>) {
        let spatial = 1 + self.rng.below(3);
        let kind = self.rng.pick(&[PoolKind::Max, PoolKind::Avg]);
        let dtype = match kind {
            PoolKind::Max => self.rng.pick(&DType::ALL[1..]),
            PoolKind::Avg => self.float(),
        };
        let kernel = self.list(spatial, &[1, 2, 3, 4, 5]);
        let padding = kernel.iter().map(|k| self.rng.below(k / 2 + 1)).collect();
        let mut sizes = vec![2, 3];
        sizes.extend(self.list(spatial, &[5, 6, 9]));
        let spec = PoolSpec {
            kind,
            stride: self.list(spatial, &[1, 2, 3]),
            kernel,
            padding,
        };
        (
            Op::Pool(Box::new(spec)),
            vec![self.input(&sizes, dtype).into()],
        )
    }

    fn resampling(&mut self) -> (Op, Vec<Operand>) {
        let sizes = [2, 3, self.rng.pick(&[1, 4, 7]), self.rng.pick(&[1, 5, 6])];
        let size = [self.rng.pick(&[1, 3, 7, 8]), self.rng.pick(&[2, 5, 12])];
        if self.rng.chance(40) {
            let dtype = self.float();
            let op = Op::AdaptiveAvgPool(AdaptiveAvgPool { size });
            return (op, vec![self.input(&sizes, dtype).into()]);
        }
        let order = self.rng.below(3) as u8;
        let dtype = match order {
            0 => self.any(),
            _ => self.float(),
        };
        let op = Op::Interpolate(Interpolate {
            size,
            order,
            align_corners: self.rng.chance(50),
        });
        (op, vec![self.input(&sizes, dtype).into()])
    }

    fn order(&mut self) -> (Op, Vec<Operand>) {
        let (mut shape, dtype) = (self.shape(), self.any());
        if self.rng.chance(25) {
            shape = vec![
                self.rng.pick(&[1, 2, 5]),
                self.rng.pick(&[130, 700, 4096, 4097, 20_000, 40_000]),
            ];
        }
        let dim = self.rng.below(shape.len().max(1));
        let n = shape.get(dim).copied().unwrap_or(1);
        let descending = self.rng.chance(50);
        let k = 1 + self.rng.below(n);
        let largest = descending;
        let op = match self.rng.below(4) {
            0 => Op::Sort(Sort { dim, descending }),
            1 => Op::ArgSort(ArgSort { dim, descending }),
            2 => Op::TopK(TopK { k, dim, largest }),
            _ => Op::ArgTopK(ArgTopK { k, dim, largest }),
        };
        (op, vec![self.input(&shape, dtype).into()])
    }

    fn scan(&mut self) -> (Op, Vec<Operand>) {
        let (shape, dtype) = (self.shape(), self.float());
        let dim = self.rng.below(shape.len().max(1));
        let kind = self.rng.pick(&[ScanKind::LogSumExp, ScanKind::Sum]);
        let op = Op::Scan(Scan { kind, dim });
        (op, vec![self.input(&shape, dtype).into()])
    }

    fn product(&mut self) -> (Op, Vec<Operand>) {
        let pair = [
            (2, 2),
            (3, 2),
            (2, 3),
            (1, 2),
            (2, 1),
            (1, 1),
            (3, 1),
            (1, 3),
        ];
        let (left, right) = self.rng.pick(&pair);
        let (m, k, n) = (
            self.rng.pick(&[1, 4, 7]),
            self.rng.pick(&[0, 1, 5]),
            self.rng.pick(&[1, 3, 6]),
        );
        let types = [
            DType::F32,
            DType::F16,
            DType::F64,
            DType::I32,
            DType::I64,
            DType::U8,
        ];
        let (a, b) = (self.rng.pick(&types), self.rng.pick(&types));
        let (x, y) = ([2, m, k], [2, k, n]);
        let x: &[usize] = if left == 1 { &x[2..] } else { &x[3 - left..] };
        let y: &[usize] = if right == 1 {
            &y[1..2]
        } else {
            &y[3 - right..]
        };
        (
            Op::Matmul,
            vec![self.input(x, a).into(), self.input(y, b).into()],
        )
    }

    fn scatter(&mut self) -> (Op, Vec<Operand>) {
        let (mut shape, dtype) = (self.shape(), self.any());
        if shape.len() == 3 && self.rng.chance(50) {
            shape.pop();
        }
        let dim = self.rng.below(shape.len().max(1));
        let size = shape.get(dim).copied().unwrap_or(1);
        let mut own = shape.clone();
        if let Some(n) = own.get_mut(dim) {
            *n = match shape.len() {
                1 => self.rng.pick(&[1, 2, 30, 3000, 20_000]),
                _ => self.rng.pick(&[1, 2, 30]),
            };
        }
        for (d, n) in own.iter_mut().enumerate() {
            if d != dim && self.rng.chance(20) {
                *n = 1 + self.rng.below(*n);
            }
        }
        let modes = [
            ScatterMode::Assign,
            ScatterMode::Sum,
            ScatterMode::Prod,
            ScatterMode::Amax,
            ScatterMode::Amin,
            ScatterMode::Mean,
        ];
        let mut mode = self.rng.pick(&modes);
        if dtype == DType::Bool && mode == ScatterMode::Mean {
            mode = ScatterMode::Sum;
        }
        let op = Op::Scatter(Scatter {
            dim,
            mode,
            include_self: self.rng.chance(60),
        });
        let x = self.input(&shape, dtype);
        let index = match dim == 0 && own.len() > 1 && self.rng.chance(40) {
            // One number a row.
            true => {
                let column: Vec<usize> = std::iter::once(own[0])
                    .chain(vec![1; own.len() - 1])
                    .collect();
                own[1..].copy_from_slice(&shape[1..]);
                let column = self.indices(&column, size);
                let to = own.iter().map(|&n| ferrotrace_kernels::Extent::Size(n));
                let expand = Op::Expand(Expand(to.collect()));
                self.graph.push(expand, &[column.into()]).expect("it fits")
            }
            false => self.indices(&own, size),
        };
        let src: Operand = match self.rng.chance(15) {
            true => Operand::Const(Scalar::Int(1)),
            false => self.input(&own, dtype).into(),
        };
        (op, vec![x.into(), index.into(), src])
    }

    fn index_put(&mut self) -> (Op, Vec<Operand>) {
        let rank = 1 + self.rng.below(4);
        let shape: Vec<usize> = (0..rank).map(|_| self.rng.pick(&[1, 2, 5, 9])).collect();
        let dtype = self.any();
        let first = self.rng.below(rank) as u8;
        let mut axes: SmallVec<[u8; 4]> = SmallVec::new();
        axes.push(first);
        axes.extend((first + 1..rank as u8).filter(|_| self.rng.chance(40)));
        let at = self.rng.below(rank - axes.len() + 1);
        let x = self.input(&shape, dtype);
        let block = [self.rng.pick(&[1, 2, 20]), self.rng.pick(&[1, 3])];
        let mut indices: Vec<Operand> = Vec::new();
        for &axis in &axes {
            let own: &[usize] = match self.rng.below(3) {
                0 => &block,
                1 => &block[1..],
                _ => &[block[0], 1],
            };
            indices.push(self.indices(own, shape[axis as usize]).into());
        }
        let read = Op::Index(Index {
            axes: axes.clone(),
            at,
        });
        let args: Vec<Operand> = std::iter::once(x.into()).chain(indices.clone()).collect();
        let (region, _) = read.infer(&self.graph.metas(&args)).expect("indices");
        let drop = self.rng.below(region.rank() + 1);
        let src = self.input(&region[drop..], dtype);
        let op = Op::IndexPut(IndexPut {
            axes,
            at,
            accumulate: self.rng.chance(60),
        });
        let mut all: Vec<Operand> = vec![x.into(), src.into()];
        all.extend(indices);
        (op, all)
    }

    fn attention(&mut self) -> (Op, Vec<Operand>) {
        let dtype = self.float();
        let (l, s, e) = (self.rng.pick(&[1, 7]), self.rng.pick(&[1, 9]), 8);
        let q = self.input(&[2, 3, l, e], dtype);
        let k = self.input(&[2, 3, s, e], dtype);
        let v = self.input(&[2, 3, s, 5], dtype);
        let mask = self.rng.chance(40);
        let mut args: Vec<Operand> = vec![q.into(), k.into(), v.into()];
        if mask {
            let kind = self.rng.pick(&[DType::Bool, DType::F32]);
            args.push(self.input(&[l, s], kind).into());
        }
        let op = Composite::Attention(Attention {
            mask,
            causal: !mask && self.rng.chance(50),
            scale: f64::NAN.to_bits(),
        });
        (Op::Composite(op), args)
    }

    fn cat(&mut self) -> (Op, Vec<Operand>) {
        let dtype = self.any();
        let n = 9 + self.rng.below(70);
        let parts = (0..n).map(|_| {
            let own = self.rng.below(4);
            self.input(&[3, own, 2], dtype).into()
        });
        let parts = parts.collect();
        (Op::Cat(Cat { dim: 1 }), parts)
    }
}

/// Draws a use of the kind `seed % KINDS`, on a device; its arrays lie on the CPU.
pub fn draw(seed: u64, device: &Device) -> Use {
    let mut d = Draft {
        device: device.clone(),
        rng: Rng::new(seed),
        graph: Graph::new(),
        arrays: Vec::new(),
    };
    d.graph.set_origin(None, Precision::Fast);
    d.graph.set_device(device);
    let (op, args) = match seed % KINDS {
        0 | 1 => d.conv(false),
        2 => d.conv(true),
        3 => d.pool(),
        4 => d.resampling(),
        5 => d.order(),
        6 => d.scan(),
        7 => d.product(),
        8 | 9 => d.scatter(),
        10 => d.index_put(),
        _ if d.rng.chance(50) => d.attention(),
        _ => d.cat(),
    };
    let result = match d.graph.push(op.clone(), &args) {
        Ok(result) => result,
        // A window that does not fit: nothing in its place.
        Err(_) => {
            d.arrays.clear();
            d.graph = Graph::new();
            d.graph.set_device(device);
            let shape = Shape::scalar();
            let full = Op::Full(Full {
                shape,
                dtype: DType::F32,
            });
            let one = Operand::Const(Scalar::Int(1));
            d.graph.push(full, &[one]).expect("a number")
        }
    };
    d.graph.set_outputs(vec![result]);
    let exact = matches!(
        op,
        Op::Sort(_)
            | Op::ArgSort(_)
            | Op::TopK(_)
            | Op::ArgTopK(_)
            | Op::Scatter(_)
            | Op::IndexPut(_)
            | Op::Cat(_)
    );
    let tolerance = match d.graph.node(result).dtype {
        _ if exact => 0.0,
        DType::F64 => 1e-12,
        DType::F32 => 2e-6,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    };
    Use {
        graph: d.graph,
        arrays: d.arrays,
        tolerance,
    }
}
