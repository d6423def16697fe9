//! State dictionaries of PyTorch's, in both of its formats; pickles that are damaged or hostile.

use crate::common::*;
use ferrotrace::io::{PtTree, TensorMap, load_pt, load_pt_tree};
use ferrotrace::prelude::*;
use std::fs;
use std::io::Write;
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// What `tests/data/pytorch/make.py` calls `state()`.
#[track_caller]
fn is_the_state(state: &TensorMap) {
    assert_eq!(state.len(), 18);
    for (name, dtype) in [
        ("uint8", DType::U8),
        ("int8", DType::I8),
        ("int16", DType::I16),
        ("int32", DType::I32),
        ("int64", DType::I64),
        ("float16", DType::F16),
        ("bfloat16", DType::BF16),
        ("float32", DType::F32),
        ("float64", DType::F64),
    ] {
        let x = &state[name];
        assert_eq!((x.dtype(), x.dims()), (dtype, &[2, 3][..]), "{name}");
        let all = x.to_dtype(DType::I32).to_vec::<i32>().unwrap();
        assert_eq!(all, [1, 2, 3, 4, 5, 6], "{name}");
    }
    let flags = state["bool"].to_vec::<bool>().unwrap();
    assert_eq!(flags, [false, true, false, true, false, true]);
    let base = Tensor::arange(0, 24, 1, DType::F32, &cpu()).reshape([2, 3, 4]);
    same(&state["base"], &base);
    same(&state["tied"], &base);
    same(&state["turned"], &base.permute([2, 0, 1]));
    assert_eq!(state["turned"].strides().unwrap(), [1, 12, 4]);
    let window = base.select(0, 1).narrow(0, 1, 2).slice(1, 0, 4, 2);
    same(&state["window"], &window);
    assert_eq!(state["spread"].strides().unwrap(), [0, 0]);
    assert_eq!(state["spread"].to_vec::<f32>().unwrap(), [7.0; 6]);
    assert_eq!(state["scalar"].to_scalar::<f64>().unwrap(), 2.5);
    assert_eq!(
        (state["scalar"].rank(), state["empty"].dims()),
        (0, &[2, 0, 3][..])
    );
    assert_eq!(state["parameter"].to_vec::<f32>().unwrap(), [1.0, -1.0]);
}

#[test]
fn what_pytorch_wrote() {
    both(|| {
        for name in ["state2", "state3", "state4", "state5", "legacy"] {
            let state = load_pt(data(&format!("pytorch/{name}.pt")), &cpu()).unwrap();
            is_the_state(&state);
        }
    });
}

#[test]
fn storages_are_shared_and_tensors_are_values() {
    let state = load_pt(data("pytorch/state2.pt"), &cpu()).unwrap();
    let mut tied = state["tied"].clone();
    tied += 1.0;
    assert_eq!(state["base"].to_vec::<f32>().unwrap()[0], 0.0);
    assert_eq!(
        state["window"].to_vec::<f32>().unwrap(),
        [16.0, 18.0, 20.0, 22.0]
    );
    assert_eq!(tied.to_vec::<f32>().unwrap()[0], 1.0);
}

#[test]
fn dictionaries_in_dictionaries() {
    let path = data("pytorch/checkpoint.pt");
    let all = load_pt(&path, &cpu()).unwrap();
    assert_eq!(all["model.0.weight"].dims(), [3, 2]);
    assert_eq!(
        all["model.1.num_batches_tracked"]
            .to_scalar::<i64>()
            .unwrap(),
        1
    );
    assert_eq!(all["optimizer.state.0.exp_avg"].dims(), [3, 2]);
    assert!(!all.contains("epoch") && all.names().all(|name| name.contains('.')));
    let tree = load_pt_tree(&path, &cpu()).unwrap();
    let of = |key: &str| tree.get(key).unwrap();
    assert_eq!(
        (of("epoch").as_integer(), of("best").as_float()),
        (Some(3), Some(0.5))
    );
    assert_eq!(of("seed").as_integer(), Some((1 << 63) + 5));
    assert_eq!(
        (of("dtype").as_text(), of("epoch").as_float()),
        (Some("torch.float32"), Some(3.0))
    );
    assert!(matches!(of("nothing"), PtTree::None) && matches!(of("flag"), PtTree::Bool(true)));
    assert!(matches!(of("raw"), PtTree::Bytes(bytes) if bytes[..] == [0, 0xff]));
    assert!(matches!(of("names"), PtTree::List(names) if names[1].as_text() == Some("b")));
    assert!(matches!(of("shape"), PtTree::List(sizes) if sizes[0].as_integer() == Some(2)));
    let model = of("model");
    assert_eq!(model.flatten().unwrap().len(), 7);
    same(
        model.get("0.weight").and_then(PtTree::as_tensor).unwrap(),
        &all["model.0.weight"],
    );
    let groups = of("optimizer").get("param_groups").unwrap();
    assert!(
        matches!(groups, PtTree::List(groups) if groups[0].get("lr").unwrap().as_float() == Some(0.125))
    );
    assert!(tree.get("absent").is_none() && groups.get("lr").is_none());
}

#[test]
fn what_is_not_allowed_is_named() {
    for (file, part) in [
        ("evil.pt", "print, which is not among the few names"),
        ("evil_legacy.pt", "print, which is not among the few names"),
        ("module.pt", "torch.nn.modules.container.Sequential"),
        ("complex.pt", "torch.ComplexFloatStorage"),
        ("uint16.pt", "_rebuild_tensor_v3"),
        ("make.py", "is no file that torch.save wrote"),
    ] {
        refused(load_pt(data(&format!("pytorch/{file}")), &cpu()), part);
    }
    refused(load_pt(data("numpy/arrays.npz"), &cpu()), "no data.pkl");
    refused(load_pt(data("pytorch"), &cpu()), "regular file");
    refused(load_pt("no such file", &cpu()), "no such file");
}

#[test]
fn truncated_anywhere() {
    let folder = folder();
    let path = folder.path().join("x.pt");
    for name in ["state2", "legacy"] {
        let whole = fs::read(data(&format!("pytorch/{name}.pt"))).unwrap();
        for len in (0..whole.len()).step_by(3) {
            fs::write(&path, &whole[..len]).unwrap();
            refused(load_pt(&path, &cpu()), "x.pt");
        }
    }
}

/// An archive of this pickle and of a storage "0" of 16 bytes.
fn archive(path: &Path, pickle: &[u8], method: CompressionMethod) {
    let mut zip = ZipWriter::new(fs::File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in [("x/data.pkl", pickle), ("x/data/0", &[1; 16][..])] {
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// The pickle of a tensor of a float storage "0" of so many elements.
fn tensor(numel: u32, offset: u32, size: &[u32], stride: &[u32]) -> Vec<u8> {
    let int = |n: u32| [&b"J"[..], &n.to_le_bytes()].concat();
    let tuple = |all: &[u32]| {
        let all: Vec<u8> = all.iter().flat_map(|&n| int(n)).collect();
        [b"(", &all[..], b"t"].concat()
    };
    [
        &b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"[..],
        &int(numel),
        b"tQ",
        &int(offset),
        &tuple(size),
        &tuple(stride),
        b"\x89NtR.",
    ]
    .concat()
}

#[test]
fn windows_beyond_their_storage() {
    let folder = folder();
    let path = folder.path().join("x.pt");
    let load = |pickle: &[u8]| {
        archive(&path, pickle, CompressionMethod::Stored);
        load_pt_tree(&path, &cpu())
    };
    let good = load(&tensor(4, 1, &[3], &[1])).unwrap();
    let ones = f32::from_le_bytes([1; 4]);
    assert_eq!(
        good.as_tensor().unwrap().to_vec::<f32>().unwrap(),
        [ones; 3]
    );
    for (numel, offset, size, stride, part) in [
        (5, 0, &[1][..], &[1][..], "has 4 elements, not 5"),
        (u32::MAX >> 1, 0, &[1], &[1], "has 4 elements"),
        (4, 2, &[3], &[1], "a window of shape"),
        (4, 0, &[2, 2], &[3, 1], "a window of shape"),
        (4, 0, &[2], &[1, 1], "a window of shape"),
        (
            4,
            0,
            &[1 << 30, 1 << 30, 1 << 30],
            &[0, 0, 0],
            "more than any memory",
        ),
        (4, u32::MAX, &[1], &[1], "is no size"),
        (4, 0, &[u32::MAX], &[1], "is no size"),
        (3, 3, &[1], &[1], "a window of shape"),
    ] {
        refused(load(&tensor(numel, offset, size, stride)), part);
    }
    // A window that repeats one element takes the memory of one.
    let wide = load(&tensor(4, 0, &[1 << 30], &[0])).unwrap();
    assert_eq!(wide.as_tensor().unwrap().numel(), 1 << 30);
}

#[test]
fn pickles_that_are_bombs() {
    let folder = folder();
    let path = folder.path().join("x.pt");
    let refuse = |pickle: &[u8], part: &str| {
        archive(&path, pickle, CompressionMethod::Stored);
        refused(load_pt(&path, &cpu()), part);
    };
    let n = 1 << 20;
    // Lists in lists, dictionaries in dictionaries, marks alone.
    let nested = [vec![b']'; n], vec![b'a'; n - 1], vec![b'.']].concat();
    refuse(&nested, "nested deeper");
    refuse(
        &[vec![b')'; 1], vec![0x85; n], vec![b'.']].concat(),
        "nested deeper",
    );
    refuse(
        &[vec![b'('; n], vec![b'.']].concat(),
        "takes more than it has",
    );
    // A list that holds itself, and a tower of lists that hold the one below twice.
    refuse(b"]q\x00h\x00a.", "hold themselves");
    let mut tower = b"]q\x00".to_vec();
    for _ in 0..100 {
        tower.extend(b"0](h\x00h\x00eq\x00");
    }
    tower.push(b'.');
    refuse(&tower, "too many times");
    // Claims of lengths, and far places of the memo.
    refuse(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", "longer than any");
    refuse(b"X\xff\xff\xff\x03abc", "longer than any");
    refuse(b"B\xff\xff\xff\x03abc", "longer than any");
    refuse(b"\x8b\xff\xff\xff\x03abc", "longer than any");
    refuse(
        b"\x8a\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.",
        "more than 128 bits",
    );
    refuse(
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffNr\xff\xff\xff\xffj\xfe\xff\xff\xff.",
        "refers to what it has not",
    );
    // One list, copied again and again.
    let mut again = b"]q\x00(".to_vec();
    again.extend([b'N'; 1000]);
    again.extend(b"eq\x010ctorch\nSize\nq\x020");
    for _ in 0..1000 {
        again.extend(b"h\x02h\x00\x85R0");
    }
    again.extend(b"N.");
    refuse(&again, "one list too many times");
    // A pickle that is longer than its file.
    archive(
        &path,
        &[vec![b'N'; n], vec![b'.']].concat(),
        CompressionMethod::Deflated,
    );
    refused(load_pt(&path, &cpu()), "longer than any");
    // A name that is longer than the limit, though its parts are short.
    let mut long = Vec::new();
    for _ in 0..60 {
        long.extend(b"}X\x64\x00\x00\x00");
        long.extend([b'k'; 100]);
    }
    let mut inner = tensor(4, 0, &[1], &[1]);
    inner.pop();
    long.extend(inner);
    long.extend([b's'; 60]);
    long.push(b'.');
    refuse(&long, "longer than 4096");
}

#[test]
fn instructions_that_make_no_sense() {
    let folder = folder();
    let path = folder.path().join("x.pt");
    for pickle in [
        &b"."[..],
        b"N",
        b"",
        b"\x80\x06N.",
        b"0.",
        b"1.",
        b"2.",
        b"h\x00.",
        b"NR.",
        b"NN\x81.",
        b"K\x01Na.",
        b"(K\x01d.",
        b"}K\x01K\x02u.",
        b"Nb.",
        b"N)b.",
        b"K\x01Q.",
        b"NQ.",
        b")Q.",
        b"cos\nsystem\n.",
        b"cbuiltins\neval\n.",
        b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.",
        b"NN\x93.",
        b"ctorch\nFloatStorage\n.",
        b"ctorch\nFloatStorage\n)R.",
        b"ccollections\nOrderedDict\nK\x01\x85R.",
        b"ccollections\nOrderedDict\n]K\x01a\x85R.",
        b"ctorch._utils\n_rebuild_parameter\nN\x85R.",
        b"ctorch._utils\n_rebuild_tensor_v2\n(NNNNt R.",
        b"}(NK\x01u.",
        b"i__main__\nx\n.",
        b"\x82\x01.",
        b"\x97.",
        b"Pabc\n.",
        b"I12x\n.",
        b"X\x01\x00\x00\x00\xff.",
    ] {
        archive(&path, pickle, CompressionMethod::Stored);
        assert!(load_pt_tree(&path, &cpu()).is_err(), "{pickle:?}");
    }
    for (pickle, tensors) in [
        (&b"N."[..], 0),
        (b"}.", 0),
        (b"I01\n.", 0),
        (b"(lp0\nI1\na.", 0),
    ] {
        archive(&path, pickle, CompressionMethod::Stored);
        assert_eq!(load_pt(&path, &cpu()).unwrap().len(), tensors);
    }
}

#[test]
fn archives_that_claim_more_than_they_have() {
    let folder = folder();
    let path = folder.path().join("x.pt");
    // The directory of a deflated entry, with another size written over.
    archive(&path, &[b'N'; 5000], CompressionMethod::Deflated);
    let mut bytes = fs::read(&path).unwrap();
    let entry = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    bytes[entry + 24..entry + 28].copy_from_slice(&u32::MAX.wrapping_sub(1).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    refused(load_pt(&path, &cpu()), "claims 4294967294 bytes");
    // Two entries over the same bytes.
    archive(&path, b"}.", CompressionMethod::Stored);
    let mut bytes = fs::read(&path).unwrap();
    let entry = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let more = bytes.len() as u32 * 2;
    for at in [20, 24] {
        bytes[entry + at..entry + at + 4].copy_from_slice(&more.to_le_bytes());
    }
    fs::write(&path, &bytes).unwrap();
    refused(load_pt(&path, &cpu()), "x.pt");
}
