//! Explanations and profiles: what they count, and that their texts hold together.

use ferrotrace::prelude::*;
use ferrotrace::{Activity, profile, with_mode};

const N: usize = 3000;

fn numbers() -> Tensor {
    let x = Tensor::arange(0, N as i64, 1, DType::F32, &Device::cpu());
    x.eval().expect("it runs");
    x
}

/// One kernel, a sort, and a kernel that reads what both made.
fn program(x: &Tensor) -> Tensor {
    let y = (x * 0.5).exp() + 1.0;
    let (sorted, _) = y.sort(-1, true);
    sorted - y.mean(-1)
}

#[test]
fn bytes_are_those_of_the_buffers() {
    with_mode(Mode::Compiled, || {
        let x = numbers();
        let y = (&x * 0.5).exp() + &x;
        let e = explain(&[&y]);
        let vector = 4 * N as u64;
        let traffic = e.traffic();
        assert_eq!((traffic.read, traffic.written), (vector, vector));
        // One by one: x read, t written; t read, u written; u and x read, y written.
        assert_eq!(e.bytes_saved(), 7 * vector - 2 * vector);
        assert_eq!(e.fused_nodes().len(), 1);
        assert!(e.fused_nodes()[0].measured.is_none());
    });
}

#[test]
fn a_profile_holds_each_step_and_explanations_then_say_how_long() {
    with_mode(Mode::Compiled, || {
        let x = numbers();
        let (y, profile) = profile(|| {
            program(&x).eval().expect("it runs");
            let y = program(&x);
            y.eval().expect("it runs");
            y
        });
        let of = |activity| {
            let spans = profile.spans().iter();
            spans
                .filter(|span| span.activity == activity)
                .collect::<Vec<_>>()
        };
        let flushes = of(Activity::Flush);
        assert!(flushes.len() >= 2, "{flushes:?}");
        assert!(
            of(Activity::Call)
                .iter()
                .any(|span| span.name.contains("sort"))
        );
        // Other threads may have begun a flush before the profile.
        let mine = of(Activity::Call)[0].thread;
        let mut kernels = of(Activity::Kernel);
        kernels.retain(|kernel| kernel.thread == mine);
        assert!(
            kernels
                .iter()
                .any(|span| span.name.contains("exp") && span.bytes > 0)
        );
        // Kernels run within flushes.
        let ends = |span: &ferrotrace::Span| span.start + span.time;
        for kernel in kernels {
            let within = |flush: &&&ferrotrace::Span| {
                flush.start <= kernel.start && ends(kernel) <= ends(flush)
            };
            assert!(flushes.iter().any(|flush| within(&flush)), "{kernel:?}");
        }
        // Each pass is a span within that of its plan. Other threads may have begun a plan before the profile.
        let planned = of(Activity::Planning);
        for pass in ["simplify", "lower", "fuse", "emit", "order"] {
            let holds = |plan: &ferrotrace::Span, span: &ferrotrace::Span| {
                plan.name.ends_with(" operations")
                    && plan.start <= span.start
                    && ends(span) <= ends(plan)
            };
            let mut spans = planned.iter().filter(|span| span.name == pass);
            let held = spans.any(|span| planned.iter().any(|plan| holds(plan, span)));
            assert!(held, "{pass}: {planned:?}");
        }
        let table = profile.to_string();
        assert!(table.contains("exp") && table.contains("GB/s"), "{table}");
        let events = profile.to_trace().matches("\"ph\":\"X\"").count();
        assert_eq!(events, profile.spans().len());

        let e = explain(&[&y]);
        let measured = e.fused_nodes().iter().filter_map(|kernel| kernel.measured);
        assert!(measured.clone().count() > 0 && measured.into_iter().all(|(runs, _)| runs >= 2));
        assert!(e.summary().contains("measured"), "{}", e.summary());
        // Beside what it takes at least.
        if let Some(machine) = ferrotrace::Machine::of(&Device::cpu()) {
            let work = e.work();
            // Steps are rounded one by one.
            let least = work.time(&machine).0.0 * (1.0 - 1e-9);
            assert!(work.operations >= 3 * N as u64, "{work:?}");
            assert!(e.estimate(&machine).0 >= least, "{work:?} {machine:?}");
            assert!(e.summary().contains(" (memory)") || e.summary().contains(" (arithmetic)"));
        }
    });
}

#[test]
fn graphs_and_pages_show_every_node_and_source() {
    with_mode(Mode::Compiled, || {
        let e = explain(&[&program(&numbers())]);
        let steps = e.fused_nodes().len() + e.calls().len();
        let dot = e.to_dot();
        assert_eq!(dot.matches("subgraph cluster_").count(), steps);
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
        let page = e.to_html();
        assert_eq!(page.matches("<section data-panel=").count(), steps);
        // It needs nothing from elsewhere.
        assert!(!page.contains("http") && !page.contains(" src="));
        let picture = e.to_svg();
        for (node, text) in [&page, &picture].into_iter().enumerate() {
            assert_eq!(text.matches("<svg").count(), 1, "{node}");
            assert_eq!(text.matches("<g").count(), text.matches("</g>").count());
        }
        let boxes = |text: &str| text.matches("<title>%").count();
        assert_eq!(boxes(&picture), dot.matches("[label=").count());
        assert_eq!(boxes(&picture), boxes(&page));
        // Each step stands in its list, each kernel with its values.
        assert_eq!(picture.matches(" operations</text>").count(), steps + 1);
        let kernels = e.fused_nodes().len();
        assert_eq!(picture.matches(">Kernel ").count(), kernels);
        for source in e.sources() {
            let first = source
                .lines()
                .find(|line| line.contains("void"))
                .unwrap_or("");
            let escaped = first
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            assert!(page.contains(escaped.trim_end()), "{first}");
        }
    });
}

#[test]
fn the_key_says_what_differs_in_the_nearest_plan() {
    with_mode(Mode::Compiled, || {
        let of = |n: usize| {
            let x = Tensor::ones(n, DType::F32, &Device::cpu());
            x.eval().expect("it runs");
            (x.tan() * 3.0).atan()
        };
        of(40).eval().expect("it runs");
        let key = explain(&[&of(41)]).key().to_owned();
        assert!(key.contains("shape of input 0: [41], there [40]"), "{key}");
        let same = explain(&[&of(40)]).key().to_owned();
        assert!(!same.contains("[40]"), "{same}");
    });
}

#[test]
fn combined_launches_show_their_members() {
    with_mode(Mode::Compiled, || {
        let inputs: Vec<Tensor> = (0..6)
            .map(|i| Tensor::arange(0, 20_000 + i, 1, DType::F32, &Device::cpu()))
            .collect();
        ferrotrace::eval(&inputs).expect("they run");
        let program = || -> Vec<Tensor> { inputs.iter().map(|x| x * 0.25 - 1.0).collect() };
        let (_, profile) = profile(|| ferrotrace::eval(&program()).expect("they run"));
        let at_once = |span: &&ferrotrace::Span| span.name.starts_with("6 kernels at once: ");
        let span = profile
            .spans()
            .iter()
            .find(at_once)
            .expect("a combined launch");
        let bytes: u64 = (0..6).map(|i| 8 * (20_000 + i)).sum();
        assert_eq!((span.activity, span.bytes), (Activity::Kernel, bytes));

        let outputs = program();
        let e = explain(&outputs.iter().collect::<Vec<_>>());
        let all = &e.combined()[0];
        assert_eq!((all.kernels.clone(), all.traffic.total()), (0..6, bytes));
        assert!(all.measured.is_some_and(|(runs, _)| runs >= 1));
        let members = e.fused_nodes();
        assert!(
            members
                .iter()
                .all(|kernel| kernel.combined == Some(0) && kernel.measured.is_none())
        );
        assert!(
            e.summary().contains("the next 6 kernels at once: "),
            "{}",
            e.summary()
        );
    });
}

// scheduler K-12, codegen A12.3, B12.3: kernels and profiles name the lines that they compute.
#[test]
fn sources_and_profiles_name_the_lines_that_recorded_them() {
    with_mode(Mode::Compiled, || {
        let x = numbers();
        let at = |line: u32| format!("tests/explaining.rs:{line}");
        let (y, first) = ((&x * 0.25).exp(), line!());
        let z = y + 1.0;
        let e = explain(&[&z]);
        let kernel = &e.fused_nodes()[0];
        let lines: Vec<&str> = kernel.origins.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("mul") && lines[0].contains("exp") && lines[0].contains(&at(first))
        );
        assert!(lines[1].contains("add") && lines[1].contains(&at(first + 1)));
        let shown = e.to_string();
        assert!(
            shown.contains(&format!("// {}\n// {}\n", lines[0], lines[1])),
            "{shown}"
        );
        assert!(e.to_html().contains(&at(first + 1)));
        // A kernel's own text does not say where it comes from: the same program elsewhere has the same.
        let elsewhere = explain(&[&((&x * 0.25).exp() + 1.0)]);
        assert_eq!(elsewhere.sources(), e.sources());

        let (run, profile) = profile(|| z.eval());
        run.expect("it runs");
        let kernels = profile.spans().iter();
        let kernel =
            kernels.filter(|span| span.activity == Activity::Kernel && span.name.contains("exp"));
        let lines: Vec<&str> = kernel.map(|span| &span.lines[..]).collect();
        let want = format!("{}, {}", at(first), at(first + 1));
        assert!(lines.contains(&&want[..]), "{lines:?}");
        assert!(
            profile
                .to_trace()
                .contains(&format!("\"lines\":\"{want}\""))
        );
    });
}
