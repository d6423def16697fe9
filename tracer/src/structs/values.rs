//! Numbers, truth values, texts and what describes tensors: parts of a signature.

use super::TensorStruct;
use super::arg::{JitArg, Owned};
use super::result::JitResult;
use super::visit::Visit;
use crate::Tensor;
use ferrotrace_runtime::{DType, Device, Shape};
use half::{bf16, f16};
use std::marker::PhantomData;

macro_rules! values {
    ($($t:ty, |$value:ident, $visit:ident| $show:expr;)*) => {$(
        impl JitArg for $t {
            type Kind = Owned<$t>;

            #[inline]
            fn visit<'v>(&'v self, $visit: &mut Visit<'v>) {
                let $value = self;
                $show;
            }
        }

        impl TensorStruct for $t {
            fn visit_mut(&mut self, _: &mut dyn FnMut(&mut Tensor)) {}

            fn rebuild(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> $t {
                self.clone()
            }
        }

        impl JitResult for $t {
            type Form = $t;

            fn flatten(&self, _: &mut Vec<Tensor>) -> Option<$t> {
                Some(self.clone())
            }

            fn unflatten(form: &$t, _: &mut dyn Iterator<Item = Tensor>) -> $t {
                form.clone()
            }
        }
    )*};
}

// Kinds 1 to 6 are numbers that a program may change from call to call, and compute with.
values! {
    f64, |x, visit| visit.value(1, x.to_bits());
    f32, |x, visit| visit.value(2, u64::from(x.to_bits()));
    i64, |x, visit| visit.value(3, *x as u64);
    i32, |x, visit| visit.value(4, *x as u64);
    u64, |x, visit| visit.value(5, *x);
    u32, |x, visit| visit.value(6, u64::from(*x));
    usize, |x, visit| visit.value(7, *x as u64);
    isize, |x, visit| visit.value(8, *x as u64);
    bool, |x, visit| visit.value(9, u64::from(*x));
    (), |_x, visit| visit.value(10, 0);
    i16, |x, visit| visit.value(11, *x as u64);
    i8, |x, visit| visit.value(12, *x as u64);
    u16, |x, visit| visit.value(13, u64::from(*x));
    u8, |x, visit| visit.value(14, u64::from(*x));
    f16, |x, visit| visit.value(15, u64::from(x.to_bits()));
    bf16, |x, visit| visit.value(16, u64::from(x.to_bits()));
    char, |x, visit| visit.value(17, u64::from(*x));
    String, |x, visit| visit.bytes(x.as_bytes());
    DType, |x, visit| visit.value(18, *x as u64);
    Device, |x, visit| visit.hashed(x);
    Shape, |x, visit| visit.hashed(&x.dims());
}

impl<T: Send + Sync + 'static> JitArg for PhantomData<T> {
    type Kind = Owned<PhantomData<T>>;

    fn visit<'v>(&'v self, _: &mut Visit<'v>) {}
}

impl<T: Send + Sync + 'static> TensorStruct for PhantomData<T> {
    fn visit_mut(&mut self, _: &mut dyn FnMut(&mut Tensor)) {}

    fn rebuild(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> PhantomData<T> {
        PhantomData
    }
}

impl<T: Send + Sync + 'static> JitResult for PhantomData<T> {
    type Form = ();

    fn flatten(&self, _: &mut Vec<Tensor>) -> Option<()> {
        Some(())
    }

    fn unflatten(_: &(), _: &mut dyn Iterator<Item = Tensor>) -> PhantomData<T> {
        PhantomData
    }
}
