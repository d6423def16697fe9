//! Roots of unity, as matrices of transforms and as factors between them.

use crate::Tensor;
use ferrotrace_runtime::{DType, Device, FloatEnvironment};
use lru::LruCache;
use parking_lot::Mutex;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// Which way a transform goes: the sign of the exponents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Forward,
    Inverse,
}

/// Numbers that transforms of one length share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    /// The transform of `n` numbers to the first `count` as a real matrix, `[2n, parts·count]`: rows are real parts and then
    /// imaginary parts of what goes in, columns those of what comes out, or the real ones alone.
    Matrix {
        n: usize,
        parts: usize,
        count: usize,
    },
    /// The powers w^(ij) of the root of order `rows`·`columns`, `[2, rows, columns]`.
    Twiddles { rows: usize, columns: usize },
    /// Half powers w^(i²/2) of the root of order `n`, `[2, n]`.
    Chirp { n: usize },
}

/// The most numbers that tables which are kept have together.
const KEPT: usize = 1 << 22;

type Key = (Table, Direction, DType, Device);

/// Tables of transforms, those asked for last.
struct Kept {
    tables: LruCache<Key, Tensor>,
    numbers: usize,
}

static TABLES: LazyLock<Mutex<Kept>> = LazyLock::new(|| {
    Mutex::new(Kept {
        tables: LruCache::unbounded(),
        numbers: 0,
    })
});

impl Kept {
    /// Keeps a table in the place of those that were not asked for longest.
    fn put(&mut self, key: Key, table: &Tensor) {
        if table.numel() > KEPT {
            return;
        }
        let before = self.tables.put(key, table.clone());
        self.numbers += table.numel() - before.map_or(0, |before| before.numel());
        while self.numbers > KEPT
            && let Some((_, oldest)) = self.tables.pop_lru()
        {
            self.numbers -= oldest.numel();
        }
    }
}

/// Powers of a root of unity, each a product of two that were computed; those at quarters of a turn are exact, and their zeros positive,
/// so that real numbers have frequencies 0 and n/2 without an imaginary part.
struct Roots {
    order: usize,
    direction: Direction,
    fine: Vec<[f64; 2]>,
    coarse: Vec<[f64; 2]>,
}

impl Roots {
    fn new(order: usize, direction: Direction) -> Roots {
        let turn = match direction {
            Direction::Forward => -2.0 * PI / order as f64,
            Direction::Inverse => 2.0 * PI / order as f64,
        };
        let step = (order as f64).sqrt().ceil().max(1.0) as usize;
        let power = |k: usize| {
            let (sin, cos) = (turn * k as f64).sin_cos();
            [cos, sin]
        };
        Roots {
            order,
            direction,
            fine: (0..step).map(power).collect(),
            coarse: (0..order.div_ceil(step)).map(|k| power(k * step)).collect(),
        }
    }

    /// The power of an exponent below the order.
    fn at(&self, exponent: usize) -> [f64; 2] {
        let quarters = 4 * exponent;
        if quarters.is_multiple_of(self.order) {
            let quarter = match self.direction {
                Direction::Forward => -1.0,
                Direction::Inverse => 1.0,
            };
            return match quarters / self.order {
                0 => [1.0, 0.0],
                1 => [0.0, quarter],
                2 => [-1.0, 0.0],
                _ => [0.0, -quarter],
            };
        }
        let step = self.fine.len();
        let ([a, b], [c, d]) = (self.fine[exponent % step], self.coarse[exponent / step]);
        [a * c - b * d, a * d + b * c]
    }
}

impl Table {
    fn shape(self) -> Vec<usize> {
        match self {
            Table::Matrix { n, parts, count } => vec![2 * n, parts * count],
            Table::Twiddles { rows, columns } => vec![2, rows, columns],
            Table::Chirp { n } => vec![2, n],
        }
    }

    fn numbers(self, direction: Direction) -> Vec<f64> {
        let _environment = FloatEnvironment::standard();
        let parts = |powers: Vec<[f64; 2]>| -> Vec<f64> {
            let part = |which: usize| powers.iter().map(move |power| power[which]);
            part(0).chain(part(1)).collect()
        };
        match self {
            Table::Matrix { n, parts, count } => {
                let roots = Roots::new(n, direction);
                let mut numbers = Vec::with_capacity(2 * n * parts * count);
                for (row, part) in
                    (0..2 * n).flat_map(|row| (0..parts).map(move |part| (row, part)))
                {
                    let column = |j: usize| {
                        let [cos, sin] = roots.at(row % n * j % n);
                        match (row < n, part) {
                            (true, 0) | (false, 1) => cos,
                            (true, _) => sin,
                            (false, _) => 0.0 - sin,
                        }
                    };
                    numbers.extend((0..count).map(column));
                }
                numbers
            }
            Table::Twiddles { rows, columns } => {
                let roots = Roots::new(rows * columns, direction);
                let row = |i: usize| (0..columns).map(move |j| i * j);
                parts((0..rows).flat_map(row).map(|k| roots.at(k)).collect())
            }
            Table::Chirp { n } => {
                let roots = Roots::new(2 * n, direction);
                let square = |i: usize| (i as u128 * i as u128 % (2 * n as u128)) as usize;
                parts((0..n).map(|i| roots.at(square(i))).collect())
            }
        }
    }

    /// The table as a tensor, kept for later transforms of the length.
    #[track_caller]
    pub fn tensor(self, direction: Direction, dtype: DType, device: &Device) -> Tensor {
        let key = (self, direction, dtype, device.clone());
        if let Some(kept) = TABLES.lock().tables.get(&key) {
            return kept.clone();
        }
        let numbers = self.numbers(direction);
        let table = match dtype {
            DType::F64 => Tensor::from_vec(numbers, self.shape(), device),
            _ => {
                let numbers: Vec<f32> = numbers.into_iter().map(|x| x as f32).collect();
                Tensor::from_vec(numbers, self.shape(), device)
            }
        };
        TABLES.lock().put(key, &table);
        table
    }
}
