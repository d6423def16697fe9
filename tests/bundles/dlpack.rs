//! Tensors handed over by DLPack and taken back, without copies.

use ferrotrace::DlTensor;
use ferrotrace::prelude::*;

const CPU: Device = Device::cpu();

/// The head of a `DLTensor`: its first element, device, number of dimensions and dtype.
#[repr(C)]
struct Head {
    data: *mut f32,
    device: [i32; 2],
    rank: i32,
    dtype: [u8; 4],
    shape: *mut i64,
    strides: *mut i64,
    offset: u64,
}

/// Through the hands of a C program, in one form or the other.
fn passed(tensor: DlTensor, versioned: bool) -> DlTensor {
    // SAFETY: the pointers are of a tensor that nobody else has.
    let back = unsafe {
        match versioned {
            true => DlTensor::from_raw_versioned(tensor.into_raw_versioned()),
            false => DlTensor::from_raw(tensor.into_raw()),
        }
    };
    back.expect("not null")
}

#[test]
fn every_dtype_and_layout_comes_back() {
    for dtype in DType::ALL {
        let x = Tensor::arange(0, 24, 1, DType::I64, &CPU).reshape([2, 3, 4]);
        let x = (x % 2).to_dtype(dtype);
        for view in [
            x.clone(),
            x.permute([2, 0, 1]),
            x.narrow(1, 1, 2),
            x.narrow(0, 0, 1).expand([5, 3, 4]),
            x.flip([0, 2]),
            x.narrow(2, 0, 0),
            x.narrow(0, 0, 1)
                .narrow(1, 0, 1)
                .narrow(2, 0, 1)
                .reshape(()),
        ] {
            for versioned in [false, true] {
                let y = Tensor::from_dlpack(passed(view.to_dlpack().expect("computed"), versioned));
                assert_eq!((y.dtype(), y.dims()), (dtype, view.dims()));
                assert!(y.allclose(&view, 0.0, 0.0).expect("computed"), "{dtype}");
            }
        }
    }
}

#[test]
fn memory_is_shared_and_written_by_nobody() {
    let mut x = Tensor::arange(0, 6, 1, DType::F32, &CPU).reshape([2, 3]);
    let handed = x.to_dlpack().expect("computed").into_raw();
    // SAFETY: a `DLManagedTensor` begins with its `DLTensor`, which the call above made.
    let head = unsafe { &*handed.cast::<Head>() };
    assert_eq!(
        (head.device, head.rank, head.dtype),
        ([1, 0], 2, [2, 32, 1, 0])
    );
    assert_eq!(head.offset, 0);
    // SAFETY: the arrays have as many numbers as the tensor has dimensions and elements.
    let (shape, strides, data) = unsafe {
        (
            std::slice::from_raw_parts(head.shape, 2),
            std::slice::from_raw_parts(head.strides, 2),
            std::slice::from_raw_parts(head.data, 6),
        )
    };
    assert_eq!((shape, strides), (&[2, 3][..], &[3, 1][..]));
    // A program that gives its tensor away writes elsewhere while another holds the memory.
    for _ in 0..3 {
        x += 1.0;
        x.eval().expect("computed");
    }
    assert_eq!(data, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    // SAFETY: the pointer is taken back once.
    let y = Tensor::from_dlpack(unsafe { DlTensor::from_raw(handed) }.expect("not null"));
    let z = jit(|y: Tensor| y * 2.0).call(y.clone());
    assert_eq!(
        z.to_vec::<f32>().expect("computed"),
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    );
    assert_eq!(y.to_vec::<f32>().expect("computed"), data);
    let again = y.to_dlpack().expect("computed").into_raw();
    // SAFETY: as above.
    let same = unsafe { (*again.cast::<Head>()).data };
    assert_eq!(same.cast_const(), data.as_ptr());
    // SAFETY: the pointer is taken back once.
    drop(unsafe { DlTensor::from_raw(again) });
}

#[test]
fn errors_are_carried() {
    let broken = Tensor::ones([2, 3], DType::F32, &CPU).reshape([7]);
    assert!(broken.to_dlpack().is_err());
}
