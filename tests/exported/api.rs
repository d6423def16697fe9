//! Programs from Rust: state, threads, conversions, gradients.

use super::{archive, expected, input};
use ferrotrace::io::{ExportedProgram, TensorMap};
use ferrotrace::prelude::*;

fn close(a: &Tensor, b: &Tensor) -> bool {
    a.allclose(b, 1e-5, 1e-6).expect("both are computed")
}

fn nested_inputs(call: usize) -> [Tensor; 3] {
    ["x", "d_a", "d_b_0"].map(|name| input("nested", call, name))
}

#[test]
fn ports_say_where_they_stand() {
    for name in ["nested", "nested_torch26", "nested_torch28", "nested_core"] {
        let program = ExportedProgram::load(archive(name)).expect(name);
        let paths = |ports: Vec<io::Port>| -> Vec<String> {
            ports.into_iter().map(|port| port.path).collect()
        };
        assert_eq!(paths(program.inputs()), ["x", "d[\"a\"]", "d[\"b\"][0]"]);
        // The second entry of the list is `None`, and the dictionary's "a" is changed by the call.
        let expected = [
            "[0][\"y\"]",
            "[0][\"z\"][0]",
            "[0][\"z\"][2]",
            "[0][\"z\"][3]",
            "[0][\"m\"]",
            "[1]",
            "[2]",
            "d[\"a\"]",
        ];
        assert_eq!(paths(program.outputs()), expected, "{name}");
    }
}

#[test]
fn ports_have_names_and_sizes() {
    let program = ExportedProgram::load(archive("nested")).expect("loaded");
    let inputs = program.inputs();
    let names: Vec<&str> = inputs.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["x", "d_a", "d_b_0"]);
    assert_eq!(
        (inputs[0].dtype, inputs[0].sizes.len()),
        (Some(DType::F32), 2)
    );
    assert_eq!(inputs[0].sizes[1], "4");
    assert_eq!(program.range(&inputs[0].sizes[0]), Some((2, 100)));
    assert!(inputs[1].is_changed && !inputs[0].is_changed);
    assert_eq!(program.parameters(), ["l.weight", "l.bias"]);
    assert_eq!(program.changed(), ["cache"]);
    // Outputs without `None`, then the input that is changed.
    assert_eq!(program.outputs().len(), 8);
    assert_eq!(program.outputs()[7].name, "d_a");
}

#[test]
fn buffers_change_from_call_to_call() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let mut program = ExportedProgram::load(archive("nested")).expect("loaded");
            for call in 0..3 {
                let inputs = nested_inputs(call);
                let results = program.run(&inputs.each_ref()).expect("run");
                for (is, expected) in results.iter().zip(expected("nested", call)) {
                    assert_eq!(
                        (is.shape(), is.dtype()),
                        (expected.shape(), expected.dtype())
                    );
                    assert!(close(is, &expected));
                }
                assert!(close(&results[7], &(&inputs[1] * 2.0)));
                let cache = program.state_dict()["cache"]
                    .to_vec::<f32>()
                    .expect("stored");
                assert_eq!(cache, [call as f32 + 1.0; 16]);
            }
        });
    }
}

#[test]
fn state_that_a_failed_call_lost_is_given_anew() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let mut program = ExportedProgram::load(archive("model_llama")).expect("loaded");
            let all = program.state_dict();
            let changed = program.changed().into_iter();
            let at_first: TensorMap = changed
                .map(|name| (name.clone(), all[&*name].clone()))
                .collect();
            let [tokens, places] = ["tokens", "places"].map(|name| input("model_llama", 0, name));
            let wrong = &tokens + 999;
            // The first call of a size keeps the state.
            assert!(program.run(&[&wrong, &places]).is_err());
            for _ in 0..3 {
                let results = program.run(&[&tokens, &places]).expect("run");
                assert!(close(&results[0], &expected("model_llama", 0)[0]));
                // Later ones write over it.
                assert!(program.run(&[&wrong, &places]).is_err());
                let error = program.run(&[&tokens, &places]).expect_err("lost");
                assert!(error.to_string().contains("load_state"), "{error}");
                program.load_state(&at_first).expect("fits");
            }
        });
    }
}

#[test]
fn a_state_of_the_callers_serves_threads() {
    let program = ExportedProgram::load(archive("nested")).expect("loaded");
    let state = program.state_dict();
    std::thread::scope(|scope| {
        for call in [0, 2] {
            let (program, state) = (&program, &state);
            scope.spawn(move || {
                let inputs = nested_inputs(0);
                let results = program.run_pure(state, &inputs.each_ref()).expect("run");
                assert!(close(&results[0], &expected("nested", 0)[0]), "{call}");
                // Behind outputs and the changed input: the changed buffer.
                assert_eq!(results.len(), 9);
                assert_eq!(results[8].to_vec::<f32>().expect("stored"), [1.0; 16]);
            });
        }
    });
    assert_eq!(state["cache"].to_vec::<f32>().expect("stored"), [0.0; 16]);
    let lacking: TensorMap = [("l.weight", state["l.weight"].clone())]
        .into_iter()
        .collect();
    let inputs = nested_inputs(0);
    let error = program
        .run_pure(&lacking, &inputs.each_ref())
        .expect_err("lacking");
    assert!(error.to_string().contains("l.bias"), "{error}");
}

#[test]
fn the_state_can_be_replaced() {
    let mut program = ExportedProgram::load(archive("nested")).expect("loaded");
    let ones: TensorMap = [("cache", Tensor::ones([2, 8], DType::F32, &Device::cpu()))]
        .into_iter()
        .collect();
    program.load_state(&ones).expect("fits");
    let inputs = nested_inputs(0);
    let results = program.run(&inputs.each_ref()).expect("run");
    assert!(close(&results[0], &(&expected("nested", 0)[0] + 16.0)));
    for (name, x) in [("cash", [2, 8]), ("cache", [8, 2])] {
        let wrong: TensorMap = [(name, Tensor::ones(x, DType::F32, &Device::cpu()))]
            .into_iter()
            .collect();
        assert!(program.load_state(&wrong).is_err(), "{name}");
    }
}

#[test]
fn narrower_programs_compute_alike() {
    let program = ExportedProgram::load(archive("mha_core")).expect("loaded");
    for (narrow, dtype, apart) in [
        (program.half(), DType::F16, 2e-2),
        (program.bfloat16(), DType::BF16, 1e-1),
    ] {
        let mut narrow = narrow.expect("converted");
        assert_eq!(narrow.inputs()[0].dtype, Some(dtype));
        let x = input("mha", 0, "a_0").to_dtype(dtype);
        let results = narrow.run(&[&x]).expect("run");
        for (is, expected) in results.iter().zip(expected("mha", 0)) {
            assert_eq!(is.dtype(), dtype);
            assert!(
                is.to_dtype(DType::F32)
                    .allclose(&expected, apart, apart)
                    .expect("computed")
            );
        }
    }
}

#[test]
fn an_imported_model_learns() {
    let program = ExportedProgram::load(archive("nested")).expect("loaded");
    let inputs = nested_inputs(0);
    let mut state = program.state_dict();
    let loss = |state: &TensorMap| {
        let results = program.run_pure(state, &inputs.each_ref()).expect("run");
        results[0].square().mean(..)
    };
    let first = loss(&state).to_scalar::<f32>().expect("computed");
    for _ in 0..5 {
        let names = program.parameters();
        let parameters: Vec<Tensor> = names
            .iter()
            .map(|name| state[name].requires_grad())
            .collect();
        let mut with = state.clone();
        for (name, parameter) in names.iter().zip(&parameters) {
            with.insert(name.clone(), parameter.clone());
        }
        let gradients = grad(&loss(&with), &parameters.iter().collect::<Vec<_>>());
        for (name, gradient) in names.iter().zip(gradients) {
            let new = &state[name] - gradient * 0.01;
            state.insert(name.clone(), new.detach());
        }
    }
    let last = loss(&state).to_scalar::<f32>().expect("computed");
    assert!(last < first, "{first} to {last}");
}

#[test]
fn sizes_are_checked() {
    let mut program = ExportedProgram::load(archive("nested")).expect("loaded");
    let [x, a, b] = nested_inputs(0);
    let cpu = Device::cpu();
    let of = |n: usize| Tensor::zeros([n, 4], DType::F32, &cpu);
    for (wrong, part) in [
        (
            of(101),
            "dimension 0 of input \"x\" (s77) is 101, where the program takes 2 to 100",
        ),
        (of(3).t(), "has the shape [4, 3]"),
        (of(3).to_dtype(DType::F64), "is f64"),
    ] {
        let error = program.run(&[&wrong, &a, &b]).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = program.run(&[&x]).expect_err("too few").to_string();
    assert!(
        error.contains("takes 3 inputs (x, d_a, d_b_0), not 1"),
        "{error}"
    );
    // What was refused changed nothing.
    assert_eq!(
        program.state_dict()["cache"]
            .to_vec::<f32>()
            .expect("stored"),
        [0.0; 16]
    );
    assert!(program.run(&[&x, &a, &b]).is_ok());
}

#[test]
fn guards_are_checked() {
    let mut program = ExportedProgram::load(archive("dynamic")).expect("loaded");
    let cpu = Device::cpu();
    let (y, n) = (
        Tensor::ones(3, DType::I64, &cpu),
        Tensor::scalar(3, DType::I64, &cpu),
    );
    let x = Tensor::zeros([7, 4], DType::F32, &cpu);
    let error = program.run(&[&x, &y, &n]).expect_err("odd").to_string();
    assert!(error.contains("% 2"), "{error}");
    let none = Tensor::zeros(3, DType::I64, &cpu);
    let x = Tensor::zeros([8, 4], DType::F32, &cpu);
    let error = program
        .run(&[&x, &none, &n])
        .expect_err("asserted")
        .to_string();
    assert!(error.contains("u1 >= 1"), "{error}");
}

#[test]
fn what_is_recorded_can_be_explained() {
    let program = ExportedProgram::load(archive("mha")).expect("loaded");
    let x = input("mha", 0, "a_0");
    let results = program.record(&[&x]).expect("recorded");
    assert!(!explain(&results).fused_nodes().is_empty());
    assert!(
        program
            .operators()
            .iter()
            .any(|(name, _)| name == "aten.linear.default")
    );
}

#[test]
fn sizes_of_one_form_share_kernels() {
    let mut program = ExportedProgram::load(archive("model_mlp")).expect("loaded");
    let mut run = |n: usize| {
        let x = Tensor::ones([n, 6], DType::F32, &Device::cpu());
        let results = program.run(&[&x]).expect("run");
        assert_eq!(results[0].dims(), [n, 3]);
    };
    [2, 17, 33].into_iter().for_each(&mut run);
    let ((), stats) = ferrotrace::stats_scope(|| (3..=64).for_each(run));
    assert_eq!(stats.kernels_compiled + stats.disk_cache_hits, 0);
}

/// What is found out when results are computed tells the program's node, in either mode, and no line of this library.
#[test]
fn errors_of_computing_name_the_node() {
    let mut program = ExportedProgram::load(archive("model_gpt")).expect("it loads");
    let tokens = input("model_gpt", 0, "tokens");
    let wrong = &tokens + 1_000_000;
    for mode in [Mode::Compiled, Mode::Eager] {
        let error = with_mode(mode, || -> Result<Vec<f32>> {
            program.run(&[&wrong])?[0].to_vec::<f32>()
        });
        let error = error.expect_err("no such token").to_string();
        assert!(
            error.contains("aten.embedding.default (\"embedding\""),
            "{error}"
        );
        assert!(!error.contains(".rs:"), "{error}");
        let right = with_mode(mode, || program.run(&[&tokens]));
        assert!(close(
            &right.expect("tokens")[0],
            &expected("model_gpt", 0)[0]
        ));
    }
}

/// Loading, copies of the program and reading its state take no memory for tensors: where each has an entry, and where
/// one entry holds all at a multiple of 8 bytes.
#[test]
fn tensors_stay_in_the_file() {
    for name in ["model_resnet", "nested_torch28"] {
        let load = || {
            let program = ExportedProgram::load(archive(name)).expect(name);
            let copy = program.to(&Device::cpu()).expect("the same device");
            let state = copy.state_dict();
            assert!(
                program
                    .parameters()
                    .iter()
                    .all(|name| state.get(name).is_some())
            );
            (program, copy, state)
        };
        let (held, stats) = ferrotrace::stats_scope(load);
        assert_eq!((stats.bytes_allocated, stats.live_bytes), (0, 0), "{name}");
        drop(held);
    }
}
