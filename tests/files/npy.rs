//! NumPy's arrays and archives.

use crate::common::*;
use ferrotrace::io::{load_npy, load_npz, save_npy, save_npz, save_npz_compressed};
use ferrotrace::prelude::*;
use std::fs;

#[test]
fn every_dtype_and_layout_comes_back() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("x.npy");
        for dtype in DType::ALL {
            let x = sample(dtype);
            let first = x.narrow(0, 0, 1);
            for x in [
                x.clone(),
                x.permute([2, 0, 1]),
                x.flip(1),
                x.select(0, 1).t(),
                first.expand([3, 3, 4]),
                x.narrow(1, 0, 0),
                x.select(0, 0).select(0, 1).select(0, 2),
            ] {
                save_npy(&path, &x).unwrap();
                same(&load_npy(&path, &cpu()).unwrap(), &x);
                save_npz_compressed(&path, &[("x", &x)]).unwrap();
                same(&load_npz(&path, &cpu()).unwrap()["x"], &x);
            }
        }
        assert_eq!(names(folder.path()), ["x.npy"]);
    });
}

#[test]
fn bits_of_special_numbers_are_kept() {
    let folder = folder();
    let path = folder.path().join("x.npy");
    let bits = [0x7ff8_0000_0000_1234u64, 1, 1 << 63, 0xfff0_0000_0000_0000];
    let x = Tensor::from_vec(bits.map(f64::from_bits).to_vec(), 4, &cpu());
    save_npy(&path, &x).unwrap();
    let back = load_npy(&path, &cpu()).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(back.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), bits);
}

#[test]
fn what_numpy_wrote() {
    let arrays = load_npz(data("numpy/arrays.npz"), &cpu()).unwrap();
    assert_eq!(arrays.len(), 31);
    for (name, dtype) in [
        ("b1", DType::Bool),
        ("u1", DType::U8),
        ("i1", DType::I8),
        ("i2", DType::I16),
        ("i4", DType::I32),
        ("i8", DType::I64),
        ("f2", DType::F16),
        ("f4", DType::F32),
        ("f8", DType::F64),
    ] {
        let want: Vec<f64> = match dtype {
            DType::Bool => vec![0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            DType::U8 => (0..6).map(f64::from).collect(),
            _ => (-2..4).map(f64::from).collect(),
        };
        for form in ["c", "fortran", "big"] {
            let x = &arrays[&*format!("{name}_{form}")];
            assert_eq!((x.dtype(), x.dims()), (dtype, &[2, 3][..]), "{name}_{form}");
            let got = x.to_dtype(DType::F64).to_vec::<f64>().unwrap();
            assert_eq!(got, want, "{name}_{form}");
        }
    }
    assert!(!arrays["f4_fortran"].is_contiguous());
    let bf16 = &arrays["bf16"];
    assert_eq!(bf16.dtype(), DType::BF16);
    let got = bf16.to_dtype(DType::F32).to_vec::<f32>().unwrap();
    assert_eq!(got, [1.5, -2.0, 3.25]);
    assert_eq!(arrays["scalar"].to_scalar::<f64>().unwrap(), 0.1);
    assert_eq!(
        (arrays["scalar"].rank(), arrays["empty"].dims()),
        (0, &[2, 0, 3][..])
    );
    let cube = arrays["cube_fortran"].to_vec::<i16>().unwrap();
    assert_eq!(cube, (0..24).collect::<Vec<i16>>());
    let packed = load_npz(data("numpy/compressed.npz"), &cpu()).unwrap();
    assert_eq!(packed.names().collect::<Vec<_>>(), ["range", "zeros"]);
    assert_eq!(
        packed["range"].to_vec::<i32>().unwrap(),
        (0..1000).collect::<Vec<_>>()
    );
    assert_eq!(packed["zeros"].dims(), [50, 20]);
    assert_eq!(packed["zeros"].sum(..).to_scalar::<f64>().unwrap(), 0.0);
    for version in 1..=3 {
        let x = load_npy(data(&format!("numpy/version{version}.npy")), &cpu()).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    }
}

#[test]
fn complex_numbers_are_pairs() {
    for (name, dtype) in [("c8", DType::F32), ("c16", DType::F64)] {
        for form in ["c", "fortran", "big"] {
            let x = load_npy(data(&format!("numpy/{name}_{form}.npy")), &cpu()).unwrap();
            assert_eq!((x.dtype(), x.dims()), (dtype, &[2, 3, 4, 2][..]), "{form}");
            for (part, first) in [(0, 0), (1, 24)] {
                let got = x.select(-1, part).to_dtype(DType::I64).to_vec::<i64>();
                let want: Vec<i64> = (first..first + 24).collect();
                assert_eq!(got.unwrap(), want, "{name}_{form}");
            }
        }
        let scalar = load_npy(data(&format!("numpy/{name}_scalar.npy")), &cpu()).unwrap();
        assert_eq!(scalar.dims(), [2]);
        let parts = scalar.to_dtype(DType::I64).to_vec::<i64>().unwrap();
        assert_eq!(parts, [23, 47]);
    }
}

#[test]
fn the_bytes_are_those_that_numpy_writes() {
    // numpy.save of numpy.array([1.0, 2.0], "f4"), of ml_dtypes' bfloat16 the same header but for the dtype.
    let folder = folder();
    let path = folder.path().join("x.npy");
    let x = Tensor::from_slice(&[1f32, 2.0], 2, &cpu());
    save_npy(&path, &x).unwrap();
    let mut want = b"\x93NUMPY\x01\x00v\x00".to_vec();
    want.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
    want.resize(127, b' ');
    want.push(b'\n');
    let header = want.clone();
    want.extend([0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    let got = fs::read(&path).unwrap();
    assert_eq!(got[got.len() - 8..], want[128..]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[10..]).trim_end().to_owned();
    assert_eq!(text(&got[..got.len() - 8]), text(&header));
    assert_eq!((got.len() - 8) % 64, 0);
    save_npy(&path, &x.to_dtype(DType::BF16)).unwrap();
    assert!(text(&fs::read(&path).unwrap()).contains("'descr': '<V2'"));
}

#[test]
fn what_no_tensor_holds_is_refused_by_name() {
    for (file, part) in [
        ("uint16", "unsigned 16-bit"),
        ("uint64", "unsigned 64-bit"),
        ("clongdouble", "complex numbers wider"),
        ("longdouble", "wider than 64"),
        ("text", "strings"),
        ("date", "dates"),
        ("record", "several fields"),
        ("object", "Python objects"),
    ] {
        let path = data(&format!("numpy/refused_{file}.npy"));
        let error = load_npy(&path, &cpu()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(file), "{error}");
    }
}

#[test]
fn truncated_anywhere() {
    let folder = folder();
    let (npy, npz) = (folder.path().join("x.npy"), folder.path().join("x.npz"));
    let x = sample(DType::F32);
    save_npy(&npy, &x).unwrap();
    save_npz(&npz, &[("x", &x)]).unwrap();
    for path in [&npy, &npz] {
        let whole = fs::read(path).unwrap();
        for len in 0..whole.len() {
            fs::write(path, &whole[..len]).unwrap();
            let result = match path == &npy {
                true => load_npy(path, &cpu()).map(drop),
                false => load_npz(path, &cpu()).map(drop),
            };
            assert!(result.is_err(), "{len} bytes of {path:?}");
        }
    }
}

#[test]
fn claims_of_headers_take_no_memory() {
    let folder = folder();
    let path = folder.path().join("x.npy");
    for shape in [
        "(1000000000000,)",
        "(4611686018427387904, 4)",
        "(9223372036854775807,)",
        "(0, 9223372036854775807, 9223372036854775807)",
    ] {
        let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend([0; 64]);
        fs::write(&path, bytes).unwrap();
        assert!(load_npy(&path, &cpu()).is_err(), "{shape}");
    }
}

#[test]
fn damage_within_an_archive_is_noticed() {
    let folder = folder();
    let path = folder.path().join("x.npz");
    let x = Tensor::arange(0, 1000, 1, DType::I32, &cpu());
    save_npz(&path, &[("x", &x)]).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[1000] ^= 1;
    fs::write(&path, damaged).unwrap();
    refused(load_npz(&path, &cpu()), "checksum");
}

#[test]
fn names_of_archives() {
    let folder = folder();
    let path = folder.path().join("x.npz");
    let (x, y) = (sample(DType::I8), sample(DType::F64));
    let names = ["", "a/b", "weird \u{1f980} name", "x.npy", "\\", ".."];
    let pairs: Vec<(&str, &Tensor)> = names.map(|name| (name, &x)).to_vec();
    save_npz(&path, &pairs).unwrap();
    let loaded = load_npz(&path, &cpu()).unwrap();
    for name in names {
        same(&loaded[name], &x);
    }
    refused(save_npz(&path, &[("x", &x), ("x", &y)]), "two tensors");
    save_npz(&path, &[]).unwrap();
    assert!(load_npz(&path, &cpu()).unwrap().is_empty());
}
