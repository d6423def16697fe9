//! Modified Bessel functions of the first kind, by Chebyshev series.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::DType;

/// Methods of a Bessel function in binary64, whose results are floats of the operand's dtype.
macro_rules! bessel_functions {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $order:literal $scaled:literal $at_one:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            /// let x = Tensor::from_slice(&[1.0], 1, &Device::cpu());
            #[doc = concat!("assert!((x.", $text, "().to_vec::<f64>()?[0] - ", $at_one, ").abs() < 1e-12);")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                let (x, dtype) = attempt!($text, self.widened(), self);
                bessel(&x.to_dtype(DType::F64), $order, $scaled)
                    .to_dtype(dtype)
                    .called($text, &[self])
            }
        )*}
    };
}

bessel_functions! {
    /// The modified Bessel function I₀. Integers give `F32`, as below.
    i0 "i0" 0 false "1.2660658777520084";
    /// e^(−|x|)·I₀(x), which does not overflow.
    i0e "i0e" 0 true "0.46575960759364043";
    /// The modified Bessel function I₁.
    i1 "i1" 1 false "0.5651591039924851";
    /// e^(−|x|)·I₁(x), which does not overflow.
    i1e "i1e" 1 true "0.2079104153497085";
}

fn bessel(x: &Tensor, order: usize, scaled: bool) -> Tensor {
    const REACH: f64 = 8.0;
    let size = x.abs();
    let near_zero = size.lt(1);
    let near = size.clamp_max(REACH) * 0.25 - 1.0;
    let far = size.clamp_min(REACH);
    let root = far.rsqrt();
    let far = far.recip() * 16.0 - 1.0;
    let (near, far) = match order {
        0 => (series(&NEAR_0, &near), series(&FAR_0, &far) * root),
        _ => (
            series(&NEAR_1, &near) * x,
            series(&FAR_1, &far) * root * x.sign(),
        ),
    };
    let y = size.gt(REACH).where_cond(&far, &near);
    if scaled {
        return y;
    }
    // Both factors of a square root of the exponential are finite wherever the result is.
    let half = (size.clone() * 0.5).exp();
    let y = y * &half * half;
    let end = match order {
        0 => size,
        _ => x.clone(),
    };
    let y = end.isinf().where_cond(&end, &y);
    // Nothing depends on the sign of x here, where the function is smooth.
    near_zero.where_cond(&powers(&near_zero.where_cond(x, 0.0), order), &y)
}

/// The power series of numbers below 1.
fn powers(x: &Tensor, order: usize) -> Tensor {
    let quarter = x.square() * 0.25;
    let mut sum = x.zeros_like();
    for k in (1..=10).rev() {
        sum = (sum + 1.0) * &quarter * (1.0 / (k * (k + order)) as f64);
    }
    match order {
        0 => sum + 1.0,
        _ => (sum + 1.0) * x * 0.5,
    }
}

/// A Chebyshev series by Clenshaw's recurrence.
fn series(terms: &[f64], x: &Tensor) -> Tensor {
    let twice = x * 2.0;
    let (mut next, mut behind) = (x.zeros_like(), x.zeros_like());
    for term in terms[1..].iter().rev() {
        let sum = &twice * &next - &behind + *term;
        behind = std::mem::replace(&mut next, sum);
    }
    x * next - behind + terms[0]
}

/// The series of e⁻ˣ·I₀(x) up to 8, in x/4 − 1.
const NEAR_0: [f64; 29] = [
    0.338_397_637_204_738_03,
    -0.304_682_672_343_198_4,
    0.171_620_901_522_208_77,
    -0.094_901_097_048_047_64,
    0.049_305_284_239_670_71,
    -0.023_737_414_805_899_47,
    0.010_546_460_394_594_998,
    -0.004_324_309_995_050_576,
    0.001_639_475_616_941_335_7,
    -0.000_576_375_574_538_582_4,
    0.000_188_502_885_095_841_65,
    -5.754_195_010_082_104e-05,
    1.644_844_807_072_889_6e-05,
    -4.416_738_358_458_750_5e-06,
    1.117_387_539_120_103_7e-06,
    -2.670_793_853_940_612e-07,
    6.046_995_022_541_919e-08,
    -1.300_025_009_986_248e-08,
    2.659_823_724_682_386_6e-09,
    -5.189_795_601_635_263e-10,
    9.675_809_035_373_237e-11,
    -1.726_826_291_441_556e-11,
    2.955_052_663_129_64e-12,
    -4.856_446_783_111_929e-13,
    7.676_185_498_604_936e-14,
    -1.168_533_287_799_345_1e-14,
    1.715_391_285_555_133e-15,
    -2.431_279_846_547_955e-16,
    3.330_794_518_822_238_4e-17,
];
/// The series of √x·e⁻ˣ·I₀(x) from 8 on, in 16/x − 1.
const FAR_0: [f64; 23] = [
    0.402_245_205_507_054_4,
    0.003_369_116_478_255_694_3,
    6.889_758_346_916_825e-05,
    2.891_370_520_834_756_7e-06,
    2.048_918_589_469_063_8e-07,
    2.266_668_990_498_178e-08,
    3.396_232_025_708_386_5e-09,
    4.940_602_388_224_97e-10,
    1.188_914_710_784_643_9e-11,
    -3.149_916_527_963_241_6e-11,
    -1.321_581_184_044_771_3e-11,
    -1.794_178_531_506_806_2e-12,
    7.180_124_451_383_666e-13,
    3.852_778_382_742_142_6e-13,
    1.540_086_217_521_41e-14,
    -4.150_569_347_287_222e-14,
    -9.554_846_698_828_307e-15,
    3.811_680_669_352_622_4e-15,
    1.772_560_133_056_526_3e-15,
    -3.425_485_619_677_219e-16,
    -2.827_623_980_516_583_6e-16,
    3.461_222_867_697_461e-17,
    4.465_621_420_296_76e-17,
];
/// The series of e⁻ˣ·I₁(x)/x up to 8, in x/4 − 1.
const NEAR_1: [f64; 28] = [
    0.126_293_593_221_816_82,
    -0.176_416_518_357_834_06,
    0.102_643_658_689_847_1,
    -0.052_945_981_208_094_99,
    0.024_726_449_030_626_516,
    -0.010_564_084_894_626_197,
    0.004_156_422_944_312_888,
    -0.001_513_572_450_631_253_2,
    0.000_512_285_956_168_575_8,
    -0.000_161_760_815_825_896_74,
    4.781_565_107_550_054e-05,
    -1.327_316_365_603_943_6e-05,
    3.470_251_308_137_678_5e-06,
    -8.568_720_264_695_455e-07,
    2.003_294_753_552_135_3e-07,
    -4.445_059_128_796_328e-08,
    9.381_537_386_495_773e-09,
    -1.887_249_751_722_829_4e-09,
    3.625_590_281_552_117e-10,
    -6.663_489_723_502_027e-11,
    1.173_618_629_889_090_1e-11,
    -1.983_974_397_764_943_6e-12,
    3.223_793_365_945_575e-13,
    -5.042_185_504_727_912e-14,
    7.600_684_294_735_408e-15,
    -1.105_596_947_735_386_2e-15,
    1.553_631_957_736_200_5e-16,
    -2.111_421_214_358_166e-17,
];
/// The series of √x·e⁻ˣ·I₁(x) from 8 on, in 16/x − 1.
const FAR_1: [f64; 23] = [
    0.389_288_117_509_140_05,
    -0.009_761_097_491_361_469,
    -0.000_110_588_938_762_623_71,
    -3.882_564_808_877_691e-06,
    -2.512_236_237_870_209e-07,
    -2.631_468_846_889_519_6e-08,
    -3.835_380_385_964_237e-09,
    -5.589_743_462_196_584e-10,
    -1.897_495_812_350_541_3e-11,
    3.252_603_583_015_488_4e-11,
    1.412_580_743_661_378_2e-11,
    2.035_628_544_147_089_6e-12,
    -7.198_551_776_245_908e-13,
    -4.083_551_111_092_197_4e-13,
    -2.101_541_842_772_664_3e-14,
    4.272_440_016_711_951e-14,
    1.042_027_698_412_880_2e-14,
    -3.814_403_072_437_007_5e-15,
    -1.880_354_775_510_782_5e-15,
    3.308_202_310_920_928_5e-16,
    2.962_628_997_645_95e-16,
    -3.209_525_921_993_424e-17,
    -4.650_305_368_489_358_6e-17,
];
