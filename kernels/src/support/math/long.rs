//! Reduction of large angles: how many quarter turns, and what is left of one.

use crate::support::lane::Float;
use crate::support::trace::{F64, Sym};
use crate::support::{Definition, Entry, SCALAR, need};
use std::fmt::Write;

/// 2ᵏ⁻⁸ · 2/π mod 4 at entry k, to 27 places: the product with an integer below 2²⁴ is exact. NaN past the exponents of
/// binary32.
pub(super) static TURNS: [f64; 128] = [
    0.00248679518699646,
    0.00497359037399292,
    0.00994718074798584,
    0.019894368946552277,
    0.03978873789310455,
    0.07957746833562851,
    0.15915494412183762,
    0.31830988824367523,
    0.6366197690367699,
    1.2732395455241203,
    2.5464790910482407,
    1.0929581820964813,
    2.185916356742382,
    0.3718327134847641,
    0.7436654344201088,
    1.487330861389637,
    2.974661722779274,
    1.9493234530091286,
    3.898646906018257,
    3.7972938120365143,
    3.594587616622448,
    3.189175233244896,
    2.3783504739403725,
    0.7567009404301643,
    1.5134018808603287,
    3.0268037617206573,
    2.0536075308918953,
    0.10721505433320999,
    0.21443010866641998,
    0.42886021733283997,
    0.8577204346656799,
    1.7154408693313599,
    3.4308817461133003,
    2.86176348477602,
    1.7235269770026207,
    3.447053946554661,
    2.894107900559902,
    1.7882157936692238,
    3.5764315873384476,
    3.1528631821274757,
    2.305726356804371,
    0.6114527210593224,
    1.2229054346680641,
    2.4458108693361282,
    0.8916217461228371,
    1.7832434922456741,
    3.5664869844913483,
    3.1329739689826965,
    2.265947937965393,
    0.5318958759307861,
    1.0637917518615723,
    2.127583496272564,
    0.25516699254512787,
    0.5103339850902557,
    1.0206679701805115,
    2.0413359478116035,
    0.0826718881726265,
    0.165343776345253,
    0.3306875601410866,
    0.6613751202821732,
    1.3227502405643463,
    2.645500473678112,
    1.2910009548068047,
    2.5820019021630287,
    1.164003811776638,
    2.3280076161026955,
    0.6560152396559715,
    1.312030479311943,
    2.624060958623886,
    1.2481219172477722,
    2.4962438344955444,
    0.9924876615405083,
    1.9849753305315971,
    3.9699506536126137,
    3.9399013072252274,
    3.8798026144504547,
    3.75960523635149,
    3.51921047270298,
    3.03842094540596,
    2.07684189081192,
    0.15368378162384033,
    0.30736755579710007,
    0.6147351190447807,
    1.2294702306389809,
    2.4589404687285423,
    0.9178809300065041,
    1.8357618600130081,
    3.671523727476597,
    3.3430474549531937,
    2.6860949024558067,
    1.372189812362194,
    2.7443796172738075,
    1.488759234547615,
    2.9775184765458107,
    1.9550369530916214,
    3.910073898732662,
    3.820147804915905,
    3.64029560983181,
    3.28059121966362,
    2.5611824318766594,
    1.1223648712038994,
    2.2447297424077988,
    0.48945948481559753,
    0.9789189621806145,
    1.957837924361229,
    3.915675848722458,
    3.8313516974449158,
    3.6627033948898315,
    3.325406789779663,
    2.6508135870099068,
    1.3016271740198135,
    2.6032543405890465,
    1.2065086886286736,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
    f64::NAN,
];

/// What each number of [`TURNS`] leaves out: its next digits.
pub(super) static TURNS_REST: [f64; 128] = [
    7.988144046604513e-10,
    1.5976288093209026e-09,
    3.195257618641805e-09,
    -1.0600653596402176e-09,
    -2.1201307192804353e-09,
    3.2103191583629576e-09,
    -1.0299422801979132e-09,
    -2.0598845603958264e-09,
    3.330811476132176e-09,
    -7.889576446594768e-10,
    -1.5779152893189536e-09,
    -3.1558305786379073e-09,
    1.138919439648014e-09,
    2.277838879296028e-09,
    -2.894902838331772e-09,
    1.6607749202602838e-09,
    3.3215498405205676e-09,
    -8.074809158826933e-10,
    -1.6149618317653865e-09,
    -3.229923663530773e-09,
    9.907332698622821e-10,
    1.9814665397245642e-09,
    -3.4876475174746992e-09,
    4.752855619744297e-10,
    9.505711239488593e-10,
    1.9011422478977186e-09,
    -3.648296101128391e-09,
    1.5398839466704606e-10,
    3.0797678933409213e-10,
    6.159535786681843e-10,
    1.2319071573363685e-09,
    2.463814314672737e-09,
    -2.522951967578354e-09,
    2.4046766617671204e-09,
    -2.6412272733895872e-09,
    2.1681260501446532e-09,
    -3.1143284966345213e-09,
    1.2219236036547852e-09,
    2.4438472073095704e-09,
    -2.562886182304687e-09,
    2.3248082323144544e-09,
    -2.8009641322949198e-09,
    1.848652332333989e-09,
    3.697304664667978e-09,
    -5.597126758787221e-11,
    -1.1194253517574442e-10,
    -2.2388507035148884e-10,
    -4.477701407029777e-10,
    -8.955402814059554e-10,
    -1.7910805628119107e-09,
    -3.5821611256238215e-09,
    2.8625834567618517e-10,
    5.725166913523703e-10,
    1.1450333827047407e-09,
    2.2900667654094814e-09,
    -2.870447066104865e-09,
    1.709686464714098e-09,
    3.419372929428196e-09,
    -6.118347380674357e-10,
    -1.2236694761348713e-09,
    -2.4473389522697427e-09,
    2.555902692384343e-09,
    -2.3387752121551418e-09,
    2.773030172613544e-09,
    -1.9045202516967394e-09,
    3.6415400935303494e-09,
    -1.6750040986312977e-10,
    -3.3500081972625953e-10,
    -6.700016394525191e-10,
    -1.3400032789050381e-09,
    -2.6800065578100763e-09,
    2.090567481303676e-09,
    -3.2694456343164765e-09,
    9.116893282908753e-10,
    1.8233786565817506e-09,
    3.646757313163501e-09,
    -1.5706597059682562e-10,
    -3.1413194119365123e-10,
    -6.282638823873025e-10,
    -1.256527764774605e-09,
    -2.51305552954921e-09,
    2.4244695378254084e-09,
    -2.601641521273011e-09,
    2.247297554377806e-09,
    -2.955985488168216e-09,
    1.538609620587396e-09,
    3.077219241174792e-09,
    -1.2961421145742448e-09,
    -2.5922842291484896e-09,
    2.2660121386268493e-09,
    -2.9185563196701295e-09,
    1.613467957583569e-09,
    3.226935915167138e-09,
    -9.967087665895522e-10,
    -1.9934175331791044e-09,
    3.4637455305656194e-09,
    -5.230895357925892e-10,
    -1.0461790715851783e-09,
    -2.0923581431703566e-09,
    3.265864310583115e-09,
    -9.188519757575982e-10,
    -1.8377039515151963e-09,
    -3.6754079030303927e-09,
    9.976479086304255e-11,
    1.995295817260851e-10,
    3.990591634521702e-10,
    7.981183269043404e-10,
    1.5962366538086808e-09,
    3.1924733076173616e-09,
    -1.065633981689105e-09,
    -2.13126796337821e-09,
    3.188044670167408e-09,
    -1.0744912565890117e-09,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
];

/// The bits of 2/π after the binary point.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
];

/// Angles in quarter turns modulo four (Payne and Hanek): the nearest whole number of them, and the signed rest, for
/// x ≥ 2²⁵; NaN for infinities and NaN.
fn quarter_turns(x: f64) -> (f64, i64) {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64;
    if exponent >= 0x7ff {
        return (f64::NAN, 0);
    }
    let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
    // x = mantissa · 2^e: bits of 2/π from weight 2^(1 − e) on give the product modulo 4.
    let start = exponent - 1075 - 2;
    let word = |i: i64| -> u64 {
        let at = start + 64 * i;
        let (index, shift) = (at.div_euclid(64), at.rem_euclid(64) as u32);
        let entry = |i: i64| {
            if i < 0 {
                0
            } else {
                TWO_OVER_PI[(i as usize).min(19)]
            }
        };
        if shift == 0 {
            entry(index)
        } else {
            entry(index) << shift | entry(index + 1) >> (64 - shift)
        }
    };
    let m = mantissa as u128;
    let low = m * word(2) as u128;
    let middle = m * word(1) as u128 + (low >> 64);
    let high = mantissa
        .wrapping_mul(word(0))
        .wrapping_add((middle >> 64) as u64);
    let middle = middle as u64;
    let fraction = high << 2 | middle >> 62;
    let rest = middle << 2 | (low as u64) >> 62;
    let turns = (high >> 62) + (fraction >> 63);
    // The fraction as a signed number of 128 places.
    let value =
        (fraction as i64 as f64) * 5.421010862427522e-20 + rest as f64 * 2.938735877055719e-39;
    (value, (turns & 3) as i64)
}

/// The remainder of a/b by long division of the mantissas, for finite a ≥ b > 0.
fn long_remainder(a: f64, b: f64) -> f64 {
    let split = |x: f64| -> (u64, u64) {
        let (exponent, mantissa) = (x.to_bits() >> 52, x.to_bits() & ((1 << 52) - 1));
        if exponent == 0 {
            (mantissa, 1)
        } else {
            (mantissa | 1 << 52, exponent)
        }
    };
    let ((m, e), (n, f)) = (split(a), split(b));
    if n == 0 || e >= 0x7ff || f >= 0x7ff || e < f {
        return a;
    }
    let mut r = m % n;
    let mut places = e - f;
    while places > 0 {
        let step = places.min(11);
        r = (r << step) % n;
        places -= step;
    }
    // r · 2^(f − 1075) by two factors: the value has at most 53 bits, on the grid of b, so both products are exact.
    let exponent = f as i64 - 1075;
    let half = exponent >> 1;
    let power = |k: i64| f64::from_bits(((k + 1023) as u64) << 52);
    r as f64 * power(half) * power(exponent - half)
}

/// Binary64 with the loops that no vector instruction takes.
pub trait Long: Float {
    /// The rest of the angle in quarter turns, signed, at most ½: for x ≥ 2²⁵.
    fn turns_rest(self) -> Self;
    /// The nearest number of quarter turns, modulo 4: for x ≥ 2²⁵.
    fn turns(self) -> Self::Int;
    /// The remainder of self / b, both finite and positive.
    fn long_remainder(self, b: Self) -> Self;
}

impl Long for f64 {
    #[inline]
    fn turns_rest(self) -> f64 {
        quarter_turns(self).0
    }
    #[inline]
    fn turns(self) -> std::num::Wrapping<i64> {
        std::num::Wrapping(quarter_turns(self).1)
    }
    #[inline]
    fn long_remainder(self, b: f64) -> f64 {
        long_remainder(self, b)
    }
}

impl Long for Sym<F64> {
    fn turns_rest(self) -> Self {
        Sym::function("ft_turns_rest_f64", &[self])
    }
    fn turns(self) -> Self::Int {
        Sym::function("ft_turns_f64", &[self])
    }
    fn long_remainder(self, b: Self) -> Self {
        Sym::function("ft_long_remainder_f64", &[self, b])
    }
}

const QUARTER_TURNS: &str = "static inline double ft_quarter_turns(double x, long *turns) {
  union { double f; unsigned long u; } b = {x};
  long exponent = b.u >> 52;
  *turns = 0;
  if (exponent >= 0x7ff) return __builtin_nan(\"\");
  unsigned long mantissa = (b.u & ((1UL << 52) - 1)) | 1UL << 52, w[3];
  for (long i = 0; i < 3; i++) {
    long at = exponent - 1077 + 64 * i, index = at >> 6, shift = at & 63;
    unsigned long p = index < 0 ? 0 : ft_two_over_pi[index], q = index + 1 < 0 ? 0 : ft_two_over_pi[index + 1];
    w[i] = shift == 0 ? p : p << shift | q >> (64 - shift);
  }
  unsigned __int128 low = (unsigned __int128)mantissa * w[2];
  unsigned __int128 sum = (unsigned __int128)mantissa * w[1] + (low >> 64);
  unsigned long high = mantissa * w[0] + (unsigned long)(sum >> 64), middle = (unsigned long)sum;
  unsigned long fraction = high << 2 | middle >> 62, rest = middle << 2 | (unsigned long)low >> 62;
  *turns = ((high >> 62) + (fraction >> 63)) & 3;
  return (double)(long)fraction * 0x1p-64 + (double)rest * 0x1p-128;
}
";

const LONG_REMAINDER: &str = "static inline double ft_long_remainder(double a, double b) {
  union { double f; unsigned long u; } x = {a}, y = {b}, p, q;
  unsigned long e = x.u >> 52, f = y.u >> 52, m = x.u & ((1UL << 52) - 1), n = y.u & ((1UL << 52) - 1);
  if (e) m |= 1UL << 52; else e = 1;
  if (f) n |= 1UL << 52; else f = 1;
  if (n == 0 || e >= 0x7ff || f >= 0x7ff || e < f) return a;
  unsigned long r = m % n;
  for (unsigned long places = e - f; places > 0;) {
    unsigned long step = places < 11 ? places : 11;
    r = (r << step) % n;
    places -= step;
  }
  long exponent = (long)f - 1075, half = exponent >> 1;
  p.u = (unsigned long)(half + 1023) << 52;
  q.u = (unsigned long)(exponent - half + 1023) << 52;
  return (double)r * p.f * q.f;
}
";

/// A part that more than one function uses, guarded since it does not depend on the lanes.
fn once(guard: &str, text: &str) -> String {
    format!("#ifndef {guard}\n#define {guard}\n{text}#endif\n")
}

/// What both functions of turns use.
fn shared_turns() -> String {
    let mut words = String::from("static const unsigned long ft_two_over_pi[20] = {");
    for word in TWO_OVER_PI {
        let _ = write!(words, "{word:#x}UL,");
    }
    words.push_str("};\n");
    once("FT_QUARTER_TURNS", &format!("{words}{QUARTER_TURNS}"))
}

/// The functions of this file in the scalar dialect: the same text as device code.
pub(in crate::support) fn scalar(name: &str) -> Option<Definition> {
    let (shared, head, body) = match name {
        "ft_turns_rest_f64" => (
            shared_turns(),
            "double ft_turns_rest_f64(double a)",
            "long k; return ft_quarter_turns(a, &k);",
        ),
        "ft_turns_f64" => (
            shared_turns(),
            "long long ft_turns_f64(double a)",
            "long k; ft_quarter_turns(a, &k); return k;",
        ),
        "ft_long_remainder_f64" => (
            once("FT_LONG_REMAINDER", LONG_REMAINDER),
            "double ft_long_remainder_f64(double a, double b)",
            "return ft_long_remainder(a, b);",
        ),
        _ => return None,
    };
    let shared = shared
        .replace("static inline", "static __device__")
        .replace("static const", "static __device__ const")
        .replace(
            "__builtin_nan(\"\")",
            "__longlong_as_double(0x7ff8000000000000LL)",
        );
    Some(Definition {
        deps: vec![need("types", SCALAR)],
        text: format!("{shared}FT_INLINE {head} {{ {body} }}\n"),
    })
}

pub(super) fn entries() -> Vec<Entry> {
    let turns = shared_turns();
    let long = once("FT_LONG_REMAINDER", LONG_REMAINDER);
    let lanewise = |shared: String,
                    result: &'static str,
                    args: &'static str,
                    body: &'static str| {
        move |name: &str, lanes: usize| {
            let args = args.replace('@', &lanes.to_string());
            let text = format!(
                "{shared}static inline {result}x{lanes} {name}x{lanes}({args}) {{\n  {result}x{lanes} r;\n  \
                 for (int i = 0; i < {lanes}; i++) {{ {body} }}\n  return r;\n}}\n"
            );
            Definition {
                deps: vec![need("types", lanes)],
                text,
            }
        }
    };
    vec![
        Entry::new(
            "ft_turns_rest_f64",
            lanewise(
                turns.clone(),
                "f64",
                "f64x@ a",
                "long k; r[i] = ft_quarter_turns(a[i], &k);",
            ),
        ),
        Entry::new(
            "ft_turns_f64",
            lanewise(
                turns,
                "i64",
                "f64x@ a",
                "long k; ft_quarter_turns(a[i], &k); r[i] = k;",
            ),
        ),
        Entry::new(
            "ft_long_remainder_f64",
            lanewise(
                long,
                "f64",
                "f64x@ a, f64x@ b",
                "r[i] = ft_long_remainder(a[i], b[i]);",
            ),
        ),
    ]
}
