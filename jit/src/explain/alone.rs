//! A kernel as a program of its own, which times it (codegen A11.2): for the folder of `FERROTRACE_DUMP`.

use crate::body::Source;
use crate::draft::{Draft, Step, origins};
use crate::emit::{Emitted, Pointer};
use crate::target::Language;
use ferrotrace_kernels::{Operand, ValueId};
use ferrotrace_runtime::{CCompiler, DType, FAULT_SLOTS};
use std::fmt::Write as _;

/// Every kernel in C that runs by itself, as a file with a `main`: how to compile it, the kernel, memory of the
/// sizes it has in the plan, and its arguments. Memory that is read as floats holds numbers of 0.5 to 1; all else zeros,
/// which are indices within range.
pub(crate) fn programs(draft: &Draft) -> Vec<String> {
    if draft.policy.target.language != Language::C {
        return Vec::new();
    }
    let origins = comments(draft);
    let launched = draft
        .steps
        .iter()
        .zip(&origins)
        .filter_map(|step| match step {
            (Step::Launch(kernel), origin) => Some(program(draft, kernel, origin)),
            _ => None,
        });
    launched.collect()
}

/// For every step, the operators it computes and their lines in the program, as comments of C.
fn comments(draft: &Draft) -> Vec<String> {
    let groups = origins::steps_of_nodes(draft);
    let nodes = origins::nodes_of_steps(&groups, draft.steps.len());
    let of = |nodes: &Vec<ValueId>| origins::commented(&origins::lines(draft, nodes));
    nodes.iter().map(of).collect()
}

/// Elements and element type of a pointer's memory, and its part of the traffic.
fn memory(draft: &Draft, pointer: Pointer) -> (usize, DType) {
    let of_node = |node| {
        let whole = draft.pieces.get(&node).map_or(node, |piece| piece.whole);
        (
            draft.graph.node(whole).shape.numel(),
            draft.graph.node(node).dtype,
        )
    };
    match pointer {
        Pointer::Read(Source::Input(n)) => {
            let input = &draft.graph.inputs()[n as usize];
            let span = input.layout.span();
            (span.end.max(span.len()), input.dtype)
        }
        Pointer::Read(Source::Node(node)) | Pointer::Write(node) => of_node(node),
    }
}

fn program(draft: &Draft, kernel: &Emitted, origin: &str) -> String {
    let flags = CCompiler::get().map_or(String::new(), |cc| cc.flags().join(" "));
    let flags = flags.replace("-shared", "").replace("-fPIC", "");
    let mut text = format!("// cc {flags} THIS.c -o alone && ./alone\n{origin}");
    text += &kernel.source.text().replace("FT_SYMBOL", "ft_alone");
    text += "\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\n";
    let list = |numbers: Vec<String>| match numbers.is_empty() {
        true => "0".to_owned(),
        false => numbers.join(", "),
    };
    let params = kernel.params.iter().map(|n| format!("{n}LL")).collect();
    let _ = writeln!(
        text,
        "static const long long params[] = {{{}}};",
        list(params)
    );
    let bits = kernel.numbers.iter().map(|number| {
        let scalar = match number.operand {
            Operand::Slot(_, scalar) | Operand::Const(scalar) => number.bits(scalar),
            Operand::Value(_) => 0,
        };
        format!("{scalar}ULL")
    });
    let bits = list(bits.collect());
    let _ = writeln!(
        text,
        "static const unsigned long long scalars[] = {{{bits}}};"
    );
    text += FILL;
    text += "int main(void) {\n";
    let (mut names, mut bytes) = (Vec::new(), 0);
    for (i, &pointer) in kernel.pointers.iter().enumerate() {
        let (elements, dtype) = memory(draft, pointer);
        let size = elements * dtype.size();
        bytes += size;
        let kind = match dtype {
            DType::F32 => 4,
            DType::F64 => 8,
            _ => 0,
        };
        let _ = writeln!(text, "  void *p{i} = filled({size}ULL, {kind});");
        names.push(format!("p{i}"));
    }
    let _ = writeln!(text, "  void *pointers[] = {{{}}};", list(names));
    let (scratch, local, chunks) = (kernel.scratch, kernel.local, kernel.chunks);
    let words = 2 * FAULT_SLOTS;
    let finish = match kernel.source.finish {
        true => "    ft_alone_finish(&args, local);\n",
        false => "",
    };
    let _ = write!(
        text,
        "  char *local = filled({local}ULL, 0);
  long long fault[{words}] = {{0}};
  ft_args args = {{pointers, params, scalars, filled({scratch}ULL, 0), fault}};
  double best = 1e30;
  for (int run = 0; run < 50; run++) {{
    const double start = now();
    ft_alone(&args, 0, {chunks}, local);
{finish}    const double time = now() - start;
    best = time < best ? time : best;
  }}
  for (int at = 0; at < {words}; at += 2) if (fault[at]) puts(\"an index was out of range\");
  printf(\"%.4f ms, %.4f GB, %.2f GB/s on one thread\\n\", 1e3 * best, {bytes} * 1e-9, {bytes} * 1e-9 / best);
  return 0;
}}
"
    );
    text
}

const FILL: &str = "
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *filled(unsigned long long bytes, int kind) {
  char *memory = aligned_alloc(128, (bytes / 128 + 2) * 128);
  if (!memory) exit(1);
  for (unsigned long long i = 0; i < bytes; i++) memory[i] = 0;
  for (unsigned long long i = 0; kind == 4 && i < bytes / 4; i++) ((float *)memory)[i] = 0.5f + (i % 64) / 128.0f;
  for (unsigned long long i = 0; kind == 8 && i < bytes / 8; i++) ((double *)memory)[i] = 0.5 + (i % 64) / 128.0;
  return memory;
}

";
