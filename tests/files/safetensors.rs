//! Safetensors files: written, mapped, in several parts, damaged.

use crate::common::*;
use ferrotrace::io::{
    SafeTensors, load_safetensors, save_safetensors, save_safetensors_in_parts,
    save_safetensors_with,
};
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::fs;
use std::path::Path;

/// A file of this header and these bytes.
fn file_of(path: &Path, header: &str, bytes: &[u8]) {
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.extend(header.bytes());
    all.extend(bytes);
    fs::write(path, all).unwrap();
}

#[test]
fn every_dtype_and_layout_comes_back() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("x.safetensors");
        let mut all = Vec::new();
        for dtype in DType::ALL {
            let x = sample(dtype);
            for (form, x) in [
                ("plain", x.clone()),
                ("turned", x.permute([2, 0, 1])),
                ("odd", x.reshape(24).narrow(0, 3, 7)),
                ("empty", x.narrow(1, 0, 0)),
                ("scalar", x.reshape(24).select(0, 5)),
            ] {
                all.push((format!("{dtype}.{form}"), x));
            }
        }
        let pairs: Vec<(&str, &Tensor)> = all.iter().map(|(n, x)| (n.as_str(), x)).collect();
        save_safetensors(&path, &pairs).unwrap();
        let bytes = fs::read(&path).unwrap();
        let loaded = load_safetensors(&path, &cpu()).unwrap();
        assert_eq!(loaded.len(), all.len());
        for (name, x) in &all {
            same(&loaded[name.as_str()], x);
        }
        let backwards: Vec<_> = pairs.iter().rev().copied().collect();
        save_safetensors(&path, &backwards).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        for (name, x) in &all {
            same(&loaded[name.as_str()], x);
        }
    });
}

#[test]
fn tensors_are_views_of_the_file() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let x = Tensor::arange(0, 1 << 20, 1, DType::F32, &cpu());
    save_safetensors(&path, &[("x", &x)]).unwrap();
    let (loaded, stats) = stats_scope(|| load_safetensors(&path, &cpu()).unwrap());
    assert_eq!((stats.bytes_allocated, stats.live_bytes), (0, 0));
    assert!(loaded["x"].allclose(&x, 0.0, 0.0).unwrap());
}

#[test]
fn computing_in_place_never_writes_the_file() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("x.safetensors");
        let x = Tensor::arange(0, 4096, 1, DType::F32, &cpu());
        save_safetensors(&path, &[("x", &x)]).unwrap();
        let bytes = fs::read(&path).unwrap();
        let step = jit(|(w, by): (Tensor, &Tensor)| w * 0.5 + by);
        let one = Tensor::ones(1, DType::F32, &cpu());
        for _ in 0..3 {
            let mut w = load_safetensors(&path, &cpu())
                .unwrap()
                .remove("x")
                .unwrap();
            let twice = SafeTensors::open(&path)
                .unwrap()
                .tensor("x", &cpu())
                .unwrap();
            w += &one;
            w = w.slice_assign(0, 0, 2, 1, &one.expand([2]));
            w = step.call((w, &one));
            assert_eq!(w.narrow(0, 0, 3).to_vec::<f32>().unwrap(), [1.5, 1.5, 2.5]);
            let w = step.call((twice, &one));
            assert_eq!(w.narrow(0, 0, 3).to_vec::<f32>().unwrap(), [1.0, 1.5, 2.0]);
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
    });
}

#[test]
fn parts_are_read_by_name() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let (a, b) = (sample(DType::F32), sample(DType::I64));
    save_safetensors_with(
        &path,
        &[("a", &a), ("b", &b)],
        &[("k", "v"), ("format", "pt")],
    )
    .unwrap();
    let file = SafeTensors::open(&path).unwrap();
    assert_eq!(
        (file.len(), file.is_empty(), file.contains("a")),
        (2, false, true)
    );
    assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        (file.dtype("b").unwrap(), file.shape("b").unwrap().dims()),
        (DType::I64, &[2, 3, 4][..])
    );
    same(&file.tensor("a", &cpu()).unwrap(), &a);
    assert_eq!(
        (&*file.metadata()["k"], &*file.metadata()["format"]),
        ("v", "pt")
    );
    refused(
        file.tensor("c", &cpu()),
        "there is no tensor \"c\"; of 2 the nearest: \"a\", \"b\"",
    );
    refused(file.dtype("c"), "no tensor");
    assert_eq!(
        format!("{file:?}"),
        "{\"a\": \"F32[2, 3, 4]\", \"b\": \"I64[2, 3, 4]\"}"
    );
}

#[test]
fn maps_of_tensors() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let (a, b) = (sample(DType::F32), sample(DType::I64));
    save_safetensors(&path, &[("layer.b", &b), ("layer.a", &a)]).unwrap();
    let mut map = load_safetensors(&path, &cpu()).unwrap();
    assert_eq!(
        map.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["layer.a", "layer.b"]
    );
    assert!(map.get("c").is_none() && map.contains("layer.a"));
    refused(map.tensor("other.b"), "the nearest: \"layer.b\"");
    assert_eq!(
        format!("{map:?}"),
        "{\"layer.a\": \"f32[2, 3, 4]\", \"layer.b\": \"i64[2, 3, 4]\"}"
    );
    same(&map.insert("layer.a", b.clone()).unwrap(), &a);
    save_safetensors(&path, &map.as_pairs()).unwrap();
    let tree = std::collections::BTreeMap::from(load_safetensors(&path, &cpu()).unwrap());
    same(&tree["layer.a"], &b);
}

#[test]
fn several_files_with_an_index() {
    let folder = folder();
    let (a, b) = (sample(DType::F32), sample(DType::BF16));
    let part = |name: &str| folder.path().join(name);
    save_safetensors_with(
        part("1.safetensors"),
        &[("a", &a), ("left", &a)],
        &[("k", "1")],
    )
    .unwrap();
    save_safetensors(part("2.safetensors"), &[("b", &b)]).unwrap();
    let index = part("model.safetensors.index.json");
    let write = |map: &str| {
        let text = format!("{{\"metadata\": {{\"total_size\": 1}}, \"weight_map\": {map}}}");
        fs::write(&index, text).unwrap();
    };
    write("{\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}");
    let all = load_safetensors(&index, &cpu()).unwrap();
    assert_eq!(all.names().collect::<Vec<_>>(), ["a", "b"]);
    same(&all["a"], &a);
    same(&all["b"], &b);
    assert_eq!(SafeTensors::open(&index).unwrap().metadata()["k"], "1");
    for (map, part) in [
        ("{\"c\": \"2.safetensors\"}", "no tensor \"c\""),
        ("{\"a\": \"3.safetensors\"}", "3.safetensors"),
        ("{\"a\": \"../1.safetensors\"}", "no file beside it"),
        ("{\"a\": \"/etc/passwd\"}", "no file beside it"),
        ("{\"a\": \"..\"}", "no file beside it"),
        ("{\"a\": 3}", "a text is expected"),
        ("[]", "an object is expected"),
        ("{", "no index"),
    ] {
        write(map);
        refused(SafeTensors::open(&index), part);
    }
}

#[test]
fn elements_at_any_place() {
    // Headers whose lengths are no multiples of 8, as old writers made them.
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    for pad in 0..8 {
        let space = " ".repeat(pad);
        let header = format!(
            "{{\"n\":{{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}},\
             \"x\":{{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[3,19]}}}}{space}"
        );
        let mut bytes = vec![7, 8, 9];
        bytes.extend([1.5f64, -2.5].map(f64::to_le_bytes).concat());
        file_of(&path, &header, &bytes);
        let all = load_safetensors(&path, &cpu()).unwrap();
        assert_eq!(all["n"].to_vec::<u8>().unwrap(), [7, 8, 9]);
        assert_eq!((&all["x"] * 2.0).to_vec::<f64>().unwrap(), [3.0, -5.0]);
    }
}

#[test]
fn many_elements_at_any_place() {
    // Copies are made in pieces of a mebibyte, by several threads.
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let n = (5 << 20) + 3;
    let bytes: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
    for pad in 0..8 {
        let space = " ".repeat(pad);
        let header = format!(
            "{{\"x\":{{\"dtype\":\"U8\",\"shape\":[{n}],\"data_offsets\":[0,{n}]}}}}{space}"
        );
        file_of(&path, &header, &bytes);
        let all = load_safetensors(&path, &cpu()).unwrap();
        assert!(all["x"].to_vec::<u8>().unwrap() == bytes, "{pad}");
    }
}

#[test]
fn dtypes_that_no_tensor_has() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let header = "{\"x\":{\"dtype\":\"U32\",\"shape\":[1],\"data_offsets\":[0,4]},\
                  \"y\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
    file_of(&path, header, &[1, 0, 0, 0, 2, 0, 0, 0]);
    let file = SafeTensors::open(&path).unwrap();
    refused(file.tensor("x", &cpu()), "tensor \"x\" is of U32");
    refused(load_safetensors(&path, &cpu()), "x.safetensors");
    assert_eq!(
        file.tensor("y", &cpu()).unwrap().to_vec::<i32>().unwrap(),
        [2]
    );
}

#[test]
fn truncated_anywhere() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    save_safetensors(
        &path,
        &[("x", &sample(DType::F32)), ("b", &sample(DType::Bool))],
    )
    .unwrap();
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        refused(load_safetensors(&path, &cpu()), "x.safetensors");
    }
    let mut longer = whole.clone();
    longer.push(0);
    fs::write(&path, longer).unwrap();
    refused(load_safetensors(&path, &cpu()), "x.safetensors");
}

#[test]
fn a_file_cut_while_it_is_open() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    save_safetensors(&path, &[("x", &sample(DType::F32))]).unwrap();
    let file = SafeTensors::open(&path).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(9)
        .unwrap();
    refused(file.tensor("x", &cpu()), "was cut from");
}

#[test]
fn headers_that_contradict_themselves() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let one = |about: &str| format!("{{\"x\":{about}}}");
    for header in [
        "".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        "{\"__metadata__\":{\"a\":1}}".to_owned(),
        one("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}"),
        one("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}"),
        one("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}"),
        one("{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}"),
        one("{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}"),
        one("{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}"),
        one("{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,4]}"),
        one(
            "{\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,18446744073709551615]}",
        ),
        format!("{{\"a\":{}", "[".repeat(100_000)),
    ] {
        file_of(&path, &header, &[0; 4]);
        refused(load_safetensors(&path, &cpu()), "x.safetensors");
    }
    file_of(
        &path,
        &one("{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}"),
        &[0, 1, 2, 1],
    );
    refused(load_safetensors(&path, &cpu()), "byte 2 is 2");
    fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    refused(
        load_safetensors(&path, &cpu()),
        "claims 18446744073709551615",
    );
}

#[test]
fn names_that_a_file_cannot_hold() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let x = sample(DType::F32);
    refused(save_safetensors(&path, &[("x", &x), ("x", &x)]), "\"x\"");
    refused(
        save_safetensors(&path, &[("__metadata__", &x)]),
        "__metadata__",
    );
    refused(
        save_safetensors_with(&path, &[], &[("a", "1"), ("a", "2")]),
        "two texts have one name",
    );
    assert!(names(folder.path()).is_empty());
    for name in ["", "\"quoted\"\n", "\u{1f980}"] {
        save_safetensors(&path, &[(name, &x)]).unwrap();
        same(&load_safetensors(&path, &cpu()).unwrap()[name], &x);
    }
}

#[test]
fn saved_in_parts() {
    both(|| {
        let folder = folder();
        let index = folder.path().join("model.safetensors.index.json");
        // Of 96, 192, 24 and 48 bytes.
        let all = [
            ("c", &sample(DType::F32)),
            ("b", &sample(DType::F64)),
            ("a", &sample(DType::U8)),
            ("d \"x\"", &sample(DType::BF16)),
        ];
        save_safetensors_in_parts(&index, &all, 150).unwrap();
        let file = |part| format!("model-0000{part}-of-00003.safetensors");
        let mut expected = vec![file(1), file(2), file(3)];
        expected.push("model.safetensors.index.json".to_owned());
        assert_eq!(names(folder.path()), expected);
        let part = load_safetensors(folder.path().join(file(3)), &cpu()).unwrap();
        assert_eq!(part.names().collect::<Vec<_>>(), ["c", "d \"x\""]);
        let loaded = load_safetensors(&index, &cpu()).unwrap();
        assert_eq!(loaded.len(), all.len());
        all.iter().for_each(|(name, x)| same(&loaded[name], x));
        let text = fs::read_to_string(&index).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["metadata"]["total_size"], 360);
        assert_eq!(json["weight_map"]["d \"x\""], file(3).as_str());

        // The parts of before, from which tensors are mapped, stay whole until the new index is there.
        let next: Vec<Tensor> = loaded.iter().map(|(_, x)| x.flatten(0, -1)).collect();
        let pairs: Vec<(&str, &Tensor)> = loaded.names().zip(&next).collect();
        save_safetensors_in_parts(&index, &pairs, 1 << 20).unwrap();
        let expected = [
            "model-00001-of-00001.safetensors",
            "model.safetensors.index.json",
        ];
        assert_eq!(names(folder.path()), expected);
        save_safetensors_in_parts(&index, &pairs, 1 << 20).unwrap();
        let expected = [
            "model.1-00001-of-00001.safetensors",
            "model.safetensors.index.json",
        ];
        assert_eq!(names(folder.path()), expected);
        let again = load_safetensors(&index, &cpu()).unwrap();
        same(&again["b"], &sample(DType::F64).flatten(0, -1));
    });
}

#[test]
fn what_cannot_be_saved_in_parts_leaves_the_parts_of_before() {
    let folder = folder();
    let index = folder.path().join("model.safetensors.index.json");
    let x = sample(DType::F32);
    save_safetensors_in_parts(&index, &[("x", &x)], 8).unwrap();
    let before = names(folder.path());
    let bad = x.matmul(&x.flatten(0, -1));
    let late = x.index_select(0, &Tensor::from_slice(&[9i64], 1, &cpu()));
    for tensors in [
        [("a", &x), ("a", &x)],
        [("a", &x), ("b", &bad)],
        [("a", &x), ("b", &late)],
        [("a", &x), ("__metadata__", &x)],
    ] {
        assert!(save_safetensors_in_parts(&index, &tensors, 8).is_err());
        assert_eq!(names(folder.path()), before);
    }
    refused(
        save_safetensors_in_parts(folder.path().join("x.safetensors"), &[("x", &x)], 8),
        ".json",
    );
    same(&load_safetensors(&index, &cpu()).unwrap()["x"], &x);
    save_safetensors_in_parts(&index, &[], 8).unwrap();
    assert!(load_safetensors(&index, &cpu()).unwrap().is_empty());
}
