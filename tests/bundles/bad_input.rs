//! Bundles that are damaged, cut, of another machine or version: each an error that says what is wrong.

use super::archives;
use ferrotrace::io::{Bundle, BundleOptions, Fallback, save_bundle};
use ferrotrace::prelude::*;
use ferrotrace::{cond, map, while_loop};
use std::io::Cursor;
use std::path::Path;
use zip::{ZipArchive, ZipWriter};

fn input() -> Tensor {
    Tensor::ones([3, 40], DType::F32, &Device::cpu())
}

/// The bytes of a small bundle.
fn example(folder: &Path) -> Vec<u8> {
    let w = Tensor::ones(40, DType::F32, &Device::cpu());
    let f = jit(move |x: &Tensor| (x * &w).exp().sum(-1));
    let path = folder.join("f.ftb");
    save_bundle(&path, &f, [&input()], &BundleOptions::new()).expect("saved");
    std::fs::read(path).expect("written")
}

fn opened(folder: &Path, bytes: &[u8]) -> Result<Bundle, String> {
    let path = folder.join("changed.ftb");
    std::fs::write(&path, bytes).expect("written");
    Bundle::open_with(&path, Fallback::Error).map_err(|error| error.to_string())
}

/// The bundle with its entries changed.
fn rewritten(bytes: &[u8], change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    archives::rewritten(bytes, 64, change)
}

/// With a part of the manifest replaced.
fn with_manifest(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    rewritten(bytes, |entries| {
        for (name, bytes) in entries.iter_mut() {
            if name == "manifest.json" {
                let text = String::from_utf8(std::mem::take(bytes)).expect("a text");
                assert!(text.contains(from), "{text}");
                *bytes = text.replacen(from, to, 1).into_bytes();
            }
        }
    })
}

/// Every byte of the file, with one of its bits turned: an error, or, in what no reader uses, the same result.
#[test]
fn a_flipped_bit_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = example(folder.path());
    let expected = (1f32.exp() * 40.0, 3);
    let (mut refused, step) = (0, bytes.len() / 700 + 1);
    for at in (0..bytes.len()).step_by(step) {
        bytes[at] ^= 1 << (at % 8);
        match opened(folder.path(), &bytes) {
            Err(error) => {
                assert!(error.contains("changed.ftb"), "byte {at}: {error}");
                refused += 1;
            }
            Ok(mut bundle) => {
                let y = bundle.run(&[&input()]).expect("run")[0].to_vec::<f32>();
                let y = y.expect("computed");
                assert_eq!(y.len(), expected.1);
                assert!(
                    y.iter().all(|y| (y - expected.0).abs() < 1e-3),
                    "byte {at}: {y:?}"
                );
            }
        }
        bytes[at] ^= 1 << (at % 8);
    }
    // Names, times and gaps between entries are not covered by checksums.
    assert!(
        refused > bytes.len() / step / 2,
        "{refused} of {}",
        bytes.len() / step
    );
}

/// Every bit of a sub-program, and of what stands around it.
#[test]
fn a_flipped_bit_in_a_sub_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let f = jit(|x: &Tensor| while_loop(|x| x.sum(..).lt(9.0), |x| x * 2.0, x));
    save_bundle(&path, &f, [&input()], &BundleOptions::new()).expect("saved");
    let bytes = std::fs::read(&path).expect("written");
    let mut zip = ZipArchive::new(Cursor::new(&bytes)).expect("an archive");
    let entry = zip.by_name("trace-0.txt").expect("a trace");
    let (start, size) = (entry.data_start() as usize, entry.size() as usize);
    assert!(bytes[start..start + size].starts_with(b"program "));
    for at in start..start + size {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let error = opened(folder.path(), &changed).expect_err("damaged");
        assert!(error.contains("trace-0.txt"), "{error}");
    }
}

/// Every part by itself, with one bit turned.
#[test]
fn a_flipped_bit_in_each_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = example(folder.path());
    let mut zip = ZipArchive::new(Cursor::new(&bytes)).expect("an archive");
    let mut parts = Vec::new();
    for i in 0..zip.len() {
        let entry = zip.by_index(i).expect("an entry");
        parts.push((
            entry.name().to_owned(),
            entry.data_start() + entry.size() / 2,
        ));
    }
    assert!(parts.len() >= 4, "{parts:?}");
    for (name, at) in parts {
        let mut changed = bytes.clone();
        changed[at as usize] ^= 4;
        let error = opened(folder.path(), &changed).expect_err(&name);
        let said =
            error.contains(&name) || error.contains("checksum") || error.contains("manifest");
        assert!(said, "{name}: {error}");
    }
}

#[test]
fn files_that_are_cut_or_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = example(folder.path());
    for len in [
        0,
        1,
        3,
        30,
        bytes.len() / 2,
        bytes.len() - 23,
        bytes.len() - 1,
    ] {
        let error = opened(folder.path(), &bytes[..len]).expect_err("cut");
        assert!(error.contains("changed.ftb"), "{error}");
    }
    assert!(opened(folder.path(), b"\x7fELF").is_err());
    let empty = ZipWriter::new(Cursor::new(Vec::new()))
        .finish()
        .expect("an archive");
    assert!(opened(folder.path(), &empty.into_inner()).is_err());
    let model = super::fixture("model_mlp").join("model.pt2");
    let error = Bundle::open(model).expect_err("a program").to_string();
    assert!(error.contains("no bundle"), "{error}");
}

#[test]
fn manifests_that_are_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = example(folder.path());
    let here = ferrotrace_runtime::Architecture::host().name();
    let other = if here.starts_with("x86") {
        "aarch64"
    } else {
        "x86-64-v4"
    };
    for (from, to, part) in [
        ("\"bundle\":1", "\"bundle\":9", "version 9"),
        ("\"traces\":1", "\"traces\":2", "trace-1.txt"),
        (
            "\"traces\":1",
            "\"traces\":9223372036854775807",
            "trace-1.txt",
        ),
        ("\"function\"", "\"program\"", "complex"),
        (&here, other, other),
        (
            "\"beside\":null",
            "\"beside\":{\"name\":\"../w\",\"bytes\":1,\"checksum\":\"0\"}",
            "elsewhere",
        ),
        (
            "\"beside\":null",
            "\"beside\":{\"name\":\"/etc/passwd\",\"bytes\":1,\"checksum\":\"0\"}",
            "elsewhere",
        ),
        (
            "\"beside\":null",
            "\"beside\":{\"name\":\"w\",\"bytes\":-1,\"checksum\":\"0\"}",
            "below 0",
        ),
        (
            "weights.safetensors",
            "elsewhere.safetensors",
            "elsewhere.safetensors",
        ),
        ("\"bytes\":", "\"bytes\":1", "damaged"),
    ] {
        let error = opened(folder.path(), &with_manifest(&bytes, from, to)).expect_err(part);
        assert!(error.contains(part), "{to}: {error}");
    }
}

#[test]
fn parts_that_are_missing_or_not_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = example(folder.path());
    opened(folder.path(), &rewritten(&bytes, |_| {})).expect("the same");
    let more = rewritten(&bytes, |entries| entries.push(("../x".to_owned(), vec![1])));
    let error = opened(folder.path(), &more).expect_err("another entry");
    assert!(error.contains("does not name"), "{error}");
    for start in ["trace", "kernels", "weights", "manifest"] {
        let fewer = rewritten(&bytes, |entries| {
            entries.retain(|(name, _)| !name.starts_with(start))
        });
        let error = opened(folder.path(), &fewer).expect_err(start);
        assert!(error.contains(start), "{error}");
    }
}

/// Traces that say what cannot be: checksums that fit, since anybody can write those.
#[test]
fn traces_that_are_wrong() {
    use ferrotrace_tracer::FunctionTrace;
    let good = "arguments f32[2]\nleaves argument 0\nnumbers fixed\ndraws \nresults value 0\nsizes any\nconstants plain\n\
                %0: f32[2] = input 0 [1]\n%1: f32[2] = mul(%0, $0=2.0)\nreturn %1\n";
    let trace: FunctionTrace = good.parse().expect("a trace");
    assert_eq!(trace.to_string(), good);
    for (from, to) in [
        ("leaves argument 0", "leaves argument 1"),
        ("leaves argument 0", "leaves value 0"),
        ("leaves argument 0", "leaves "),
        ("value 0", "value 1"),
        ("value 0", "constant 18446744073709551615"),
        ("numbers fixed", "numbers key 0"),
        ("numbers fixed", "numbers "),
        ("$0=2.0", "$7=2.0"),
        ("draws ", "draws x"),
        ("f32[2]\nleaves", "f32[2\nleaves"),
        ("f32[2]\nleaves", "f32[-2]\nleaves"),
        ("mul(%0", "mul(%1"),
        ("mul", "mull"),
        ("sizes any", "size any"),
        ("%0: f32[2]", "%0: f32[4294967296, 4294967296, 4]"),
        (
            "arguments f32[2]",
            "arguments f32[4294967296, 4294967296, 4]",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert!(text.parse::<FunctionTrace>().is_err(), "{to}");
    }
}

/// A loop within a loop within a loop: read as deep as anybody writes, and no deeper.
#[test]
fn programs_that_are_nested_deep() {
    use ferrotrace_tracer::FunctionTrace;
    let nested = |depth: usize| {
        let mut text = String::new();
        for at in 0..depth {
            let body = match at {
                0 => "%1: f32[2] = mul(%0, 2.0)\nreturn %1".replace("2.0", "$0=2.0"),
                _ => format!(
                    "%1: u8[64] = map(%0, $0=2.0) {{digest: \"{}\"}}\n%2: f32[2] = part(%1) {{number: 0, start: 0, bytes: 64}}\nreturn %2",
                    at - 1
                ),
            };
            text += &format!(
                "program {at} map\ncontrol scan 1 0 3 false\ntakes f32[2]; number float\nresults f32[2]\ndraws \nbody\n\
                leaves 0\nslots number 0\noutputs value 0\n%0: f32[2] = input 0 [1]\n{body}\nend\n"
            );
        }
        let last = depth - 1;
        text += &format!(
            "arguments f32[2]\nleaves argument 0\nnumbers fixed\ndraws \nresults value 0\nsizes any\nconstants plain\n\
            %0: f32[2] = input 0 [1]\n%1: u8[64] = map(%0, $0=2.0) {{digest: \"{last}\"}}\n%2: f32[2] = part(%1) {{number: 0, start: 0, bytes: 64}}\nreturn %2\n"
        );
        text.parse::<FunctionTrace>()
    };
    let x = Tensor::from_slice(&[1.0f32, -1.0], 2, &Device::cpu());
    let trace = nested(3).expect("a trace");
    let y = trace.record(&[&x], &[], &Device::cpu()).expect("recorded");
    let factor = 2f32.powi(27);
    assert_eq!(y[0].to_vec::<f32>().expect("computed"), [factor, -factor]);
    let error = nested(65).expect_err("too deep").to_string();
    assert!(error.contains("nested more than 64 deep"), "{error}");
}

/// A trace with one of its characters changed, or cut: an error, or another trace, and no panic.
#[test]
fn traces_that_are_changed_anywhere() {
    let _drawing = super::drawing();
    changed_anywhere("softmax", |x| {
        let y = x.reshape([4, 5, 6]).softmax(-1).permute([2, 0, 1]);
        let noise = Tensor::randn([6, 4, 5], DType::F32, &Device::cpu());
        Tensor::cat(&[&y, &(y.cumsum(1) + noise)], 0).sum([0, 2])
    });
    changed_anywhere("program", |x| {
        let drawn = |x: &Tensor| x + Tensor::rand([], DType::F32, &Device::cpu());
        let step = |x: &Tensor| cond(&x.gt(3.0), drawn, |x| x * 2.0, x);
        let of_row = |row: &Tensor| while_loop(|x: &Tensor| x.lt(9.0), step, &row.sum(..));
        map(of_row, x)
    });
}

fn changed_anywhere(holds: &str, f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) {
    use ferrotrace_tracer::FunctionTrace;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let f = jit(move |x: &Tensor| f(x));
    let x = Tensor::ones([20, 6], DType::F32, &Device::cpu());
    save_bundle(&path, &f, [&x], &BundleOptions::new()).expect("saved");
    let entries = archives::entries(&std::fs::read(&path).expect("a file"));
    let trace = entries.into_iter().find(|(name, _)| name == "trace-0.txt");
    let text = String::from_utf8(trace.expect("a trace").1).expect("a text");
    assert!(
        text.parse::<FunctionTrace>().is_ok() && text.contains(holds),
        "{text}"
    );
    let mut refused = 0;
    let end = text.rfind("return").expect("an end");
    assert!(text[..end].parse::<FunctionTrace>().is_err());
    for at in 0..text.len() {
        let _ = text[..at].parse::<FunctionTrace>();
        for change in [
            "9",
            "-",
            "0",
            "%",
            "x",
            "[",
            " ",
            "\n",
            "99999999999999999999",
        ] {
            let changed = format!("{}{change}{}", &text[..at], &text[at + 1..]);
            refused += usize::from(changed.parse::<FunctionTrace>().is_err());
        }
    }
    assert!(refused > text.len(), "{refused} of {}", text.len() * 9);
}
