//! Compiling support text, running it over arrays, and the arrays.

use ferrotrace_kernels::support::{BYTE_LANES, Need, c_type, need, parts};
use ferrotrace_runtime::{DType, Element, Isa};
use half::{bf16, f16};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

/// A compiler, an instruction set and a number of lanes.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub cc: &'static str,
    pub isa: Isa,
    pub lanes: usize,
}

/// Whether every function of one binary32 argument is compared on all 2³² of them.
pub fn exhaustive() -> bool {
    std::env::var("FERROTRACE_TWINS").is_ok_and(|v| v == "all")
}

fn every_setup() -> bool {
    exhaustive() || std::env::var("FERROTRACE_TWINS").is_ok_and(|v| v == "setups")
}

pub fn has(cc: &str) -> bool {
    Command::new(cc)
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
}

/// The compilers and instruction sets to try; none, with a message, where there is no compiler or no fused product.
pub fn setups() -> Vec<Setup> {
    let host = Isa::host();
    let natural = |isa: Isa| isa.vector_bytes() / 4;
    let compilers: Vec<&'static str> = ["gcc", "clang"].into_iter().filter(|cc| has(cc)).collect();
    if compilers.is_empty() || !fused() {
        eprintln!("skipped: no C compiler, or no FMA");
        return Vec::new();
    }
    let mut setups = Vec::new();
    for (i, cc) in compilers.into_iter().enumerate() {
        if !every_setup() {
            setups.push(Setup {
                cc,
                isa: host,
                lanes: natural(host),
            });
            if host == Isa::Avx512 && i == 0 {
                setups.push(Setup {
                    cc,
                    isa: Isa::Sse2,
                    lanes: 4,
                });
            }
            continue;
        }
        let sets = [Isa::Avx512, Isa::Avx2, Isa::Sse2];
        let sets = if sets.contains(&host) {
            sets.to_vec()
        } else {
            vec![host]
        };
        for isa in sets
            .into_iter()
            .filter(|isa| isa.vector_bytes() <= host.vector_bytes())
        {
            let mut lanes = vec![natural(isa), natural(isa) / 2];
            if i == 0 {
                lanes.extend([16, 8, 1]);
            }
            lanes.sort_unstable();
            lanes.dedup();
            setups.extend(lanes.into_iter().map(|lanes| Setup { cc, isa, lanes }));
        }
    }
    setups
}

pub struct Library {
    pub setup: Setup,
    library: libloading::Library,
    _folder: tempfile::TempDir,
}

/// A source of kernels: bodies that use the parts they need.
#[derive(Default)]
pub struct Source {
    pub needs: BTreeSet<Need>,
    body: String,
}

impl Source {
    pub fn compile(&self, setup: Setup) -> Library {
        let folder = tempfile::tempdir().unwrap();
        let (c, so) = (folder.path().join("k.c"), folder.path().join("k.so"));
        let text: String = parts(&self.needs).iter().map(|p| p.text.as_ref()).collect();
        std::fs::write(&c, format!("{text}{}", self.body)).unwrap();
        let output = Command::new(setup.cc)
            .args([
                "-O1",
                "-shared",
                "-fPIC",
                "-w",
                "-ffp-contract=off",
                "-fwrapv",
                "-fno-math-errno",
            ])
            .args(setup.isa.flags())
            .args(["-o".as_ref(), so.as_os_str(), c.as_os_str(), "-lm".as_ref()])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{setup:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        // SAFETY: the library has no initialisers.
        let library = unsafe { libloading::Library::new(&so) }.unwrap();
        Library {
            setup,
            library,
            _folder: folder,
        }
    }

    /// A loop over arrays of dtypes `from` that stores `expression` of `a` (and `b`) as `to`, tails included.
    pub fn pointwise(
        &mut self,
        lanes: usize,
        name: &str,
        from: &[DType],
        to: DType,
        expression: &str,
    ) {
        let mut head = format!("void {name}(const char *x, const char *y, char *z, long n) {{\n");
        for tail in [false, true] {
            let (open, load, store, m) = if tail {
                ("  if (i < n) {\n".to_string(), "loadn", "storen", ", n - i")
            } else {
                (
                    format!("  long i = 0;\n  for (; i + {lanes} <= n; i += {lanes}) {{\n"),
                    "load",
                    "store",
                    "",
                )
            };
            head.push_str(&open);
            for ((dtype, value), pointer) in from.iter().zip(["a", "b"]).zip(["x", "y"]) {
                self.needs
                    .insert(need(&format!("ft_{load}_{dtype}"), lanes));
                let (ty, size) = (c_type(*dtype, lanes), dtype.size());
                let _ = writeln!(
                    head,
                    "    {ty}x{lanes} {value} = ft_{load}_{dtype}x{lanes}({pointer} + i * {size}{m});"
                );
            }
            self.needs.insert(need(&format!("ft_{store}_{to}"), lanes));
            let size = to.size();
            let _ = writeln!(
                head,
                "    ft_{store}_{to}x{lanes}(z + i * {size}, {expression}{m});\n  }}"
            );
        }
        self.body.push_str(&head);
        self.body.push_str("}\n");
    }
}

impl Library {
    pub fn run<A: Copy, B: Copy + Default>(&self, name: &str, x: &[A], y: &[A]) -> Vec<B> {
        let mut z = vec![B::default(); x.len()];
        // SAFETY: `Source::pointwise` defines the function with this signature, for arrays of these types.
        unsafe {
            let f = self
                .library
                .get::<unsafe extern "C" fn(*const A, *const A, *mut B, std::ffi::c_long)>(
                    name.as_bytes(),
                )
                .unwrap();
            f(
                x.as_ptr(),
                y.as_ptr(),
                z.as_mut_ptr(),
                x.len() as std::ffi::c_long,
            );
        }
        z
    }
}

/// Elements as bits, all NaN alike.
pub trait Bits: Element + Default {
    fn bits(self) -> u64;
    fn random(seed: u64) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            fn bits(self) -> u64 {
                self as u64
            }
            fn random(seed: u64) -> $t {
                let special = [0 as $t, 1, (0 as $t).wrapping_sub(1), <$t>::MIN, <$t>::MAX, 2, 3, 7, 31, 33];
                if seed % 5 == 0 { special[(seed >> 40) as usize % 10] } else { (seed >> 7) as $t }
            }
        }
    )*};
}

integers!(u8 i8 i16 i32 i64);

impl Bits for bool {
    fn bits(self) -> u64 {
        self as u64
    }
    fn random(seed: u64) -> bool {
        seed & 64 != 0
    }
}

macro_rules! floats {
    ($($t:ty, $u:ty, $wide:expr;)*) => {$(
        impl Bits for $t {
            fn bits(self) -> u64 {
                if self.is_nan() { u64::MAX } else { self.to_bits() as u64 }
            }
            fn random(seed: u64) -> $t {
                let make = $wide;
                match seed % 7 {
                    0 => make(f64::from_bits(seed.wrapping_mul(0x9E3779B97F4A7C15))),
                    1 => make((seed >> 50) as f64 - 8192.0),
                    2 => {
                        let special = [
                            0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.5, -2.0, 1e30, 5e-324,
                            2147483648.0, 9223372036854775808.0, 255.5, -128.5, 1e-40,
                        ];
                        make(special[(seed >> 33) as usize % 16])
                    }
                    3 => make(((seed >> 11) as f64 * 2f64.powi(-53) - 0.5) * 200.0),
                    4 => make((seed >> 11) as f64 * 2f64.powi(-50) - 4.0),
                    _ => <$t>::from_bits((seed >> 3) as $u),
                }
            }
        }
    )*};
}

floats! {
    f32, u32, |v: f64| v as f32;
    f64, u64, |v: f64| v;
    f16, u16, f16::from_f64;
    bf16, u16, bf16::from_f64;
}

pub fn samples<T: Bits>(n: usize, mut seed: u64) -> Vec<T> {
    (0..n)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            T::random(seed)
        })
        .collect()
}

pub fn compare<A: Bits, B: Bits>(what: &str, x: &[A], y: &[A], want: &[B], got: &[B]) {
    for i in 0..x.len() {
        assert!(
            want[i].bits() == got[i].bits(),
            "{what}({:?}, {:?}): Rust {:?}, C {:?}",
            x[i],
            y[i],
            want[i],
            got[i]
        );
    }
}

/// `f` over arrays, compiled with FMA instructions where the tests run at all (see `setups`).
#[cfg(target_arch = "x86_64")]
pub fn apply<A: Copy, B>(f: impl Fn(A, A) -> B + Copy, x: &[A], y: &[A]) -> Vec<B> {
    #[target_feature(enable = "avx2,fma")]
    fn each<A: Copy, B>(f: impl Fn(A, A) -> B, x: &[A], y: &[A]) -> Vec<B> {
        x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()
    }
    assert!(fused());
    // SAFETY: the features were detected.
    unsafe { each(f, x, y) }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn apply<A: Copy, B>(f: impl Fn(A, A) -> B + Copy, x: &[A], y: &[A]) -> Vec<B> {
    x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()
}

#[cfg(target_arch = "x86_64")]
pub fn fused() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
pub fn fused() -> bool {
    true
}

/// A library of the source for each setup.
pub fn libraries(source: impl Fn(usize) -> Source) -> Vec<Library> {
    compiled(setups(), source)
}

/// The setups, and those with as many lanes as registers hold of elements of so many bytes, of which there are many.
pub fn setups_of(bytes: usize) -> Vec<Setup> {
    let mut setups = setups();
    let narrow = setups.clone().into_iter().map(|setup| Setup {
        lanes: setup.isa.vector_bytes() / bytes,
        ..setup
    });
    setups.extend(narrow.filter(|setup| setup.lanes >= BYTE_LANES));
    setups
}

/// A library of the source for each setup of elements of so many bytes.
pub fn libraries_of(bytes: usize, source: impl Fn(usize) -> Source) -> Vec<Library> {
    compiled(setups_of(bytes), source)
}

fn compiled(setups: Vec<Setup>, source: impl Fn(usize) -> Source) -> Vec<Library> {
    let all = setups.into_iter();
    all.map(|s| source(s.lanes).compile(s)).collect()
}
