//! What is stored and what is computed again; and that neither depends on the order of recording.

use super::{kernels, plan, run};
use crate::common::{filled, noise};
use ferrotrace_kernels::copy;
use ferrotrace_runtime::DType;

/// A value of several inputs that two kernels need, which walk it differently.
fn two_readers(inputs: usize, last: &str) -> String {
    let mut text = String::new();
    for i in 0..inputs {
        text += &format!("%{i}: f32[70, 90] = input {i} [90, 1]\n");
    }
    let mut at = 0;
    for i in 1..inputs {
        let sum = inputs + i - 1;
        text += &format!("%{sum}: f32[70, 90] = add(%{at}, %{i})\n");
        at = sum;
    }
    let (value, rows, columns) = (
        at.max(inputs - 1) + 1,
        at.max(inputs - 1) + 2,
        at.max(inputs - 1) + 3,
    );
    text + &format!(
        "%{value}: f32[70, 90] = {last}(%{at})
         %{rows}: f32[70] = sum(%{value}) {{dims: [1], keepdim: false}}
         %{columns}: f32[90] = max(%{value}) {{dims: [0], keepdim: false}}
         return %{rows} %{columns}"
    )
}

// ir T53, B9
#[test]
fn a_cheap_value_of_few_reads_is_computed_again() {
    let results = 4 * (70 + 90);
    let written =
        |inputs: usize, last: &str| plan(&two_readers(inputs, last)).explain().traffic().written;
    for inputs in 1..=4 {
        assert_eq!(written(inputs, "neg"), results, "{inputs}");
    }
    let value = 4 * 70 * 90;
    assert_eq!(written(5, "neg"), results + value);
    // A costly function is evaluated once.
    assert_eq!(written(1, "exp"), results + value);
    for (inputs, last) in [(4, "neg"), (5, "neg"), (1, "exp")] {
        let arrays: Vec<_> = (0..inputs).map(|i| noise(&[70, 90], i as u64)).collect();
        run(&two_readers(inputs, last), &arrays, 1e-3);
    }
}

// codegen D T02
#[test]
fn a_chain_of_twenty_moves_its_operand_and_result() {
    let mut text = String::from("%0: f32[10000000] = input 0 [1]\n");
    for i in 1..=20 {
        let op = ["sin", "abs", "sqrt", "neg"][i % 4];
        text += &format!("%{i}: f32[10000000] = {op}(%{})\n", i - 1);
    }
    let explanation = plan(&(text + "return %20")).explain();
    let traffic = explanation.traffic();
    assert_eq!(explanation.fused_nodes().len(), 1);
    assert_eq!((traffic.read, traffic.written), (40_000_000, 40_000_000));
    assert_eq!(explanation.peak_bytes(), 40_000_000);
}

/// Three independent statements over two tensors, views among them, in an order.
fn statements(order: [usize; 5]) -> String {
    let lines = [
        "%T: f32[90, 70] = permute(%0) {order: [1, 0]}\n",
        "%U: f32[70] = sum(%0) {dims: [1], keepdim: false}\n",
        "%W: f32[90] = max(%1) {dims: [0], keepdim: false}\n",
        "%X: f32[30, 90] = narrow(%1) {dim: 0, start: 5, len: 30}\n",
        "%Y: f32[70, 90] = mul(%0, %1)\n",
    ];
    let mut text =
        String::from("%0: f32[70, 90] = input 0 [90, 1]\n%1: f32[70, 90] = input 1 [90, 1]\n");
    order.iter().for_each(|&i| text += lines[i]);
    text += "%Z: f32[90, 70] = exp(%T)\n%V: f32[30, 90] = sin(%X)\nreturn %U %W %Y %Z %V";
    let mut names: Vec<&str> = order.iter().map(|&i| &lines[i][..2]).collect();
    names.extend(["%Z", "%V"]);
    for (i, name) in names.iter().enumerate() {
        text = text.replace(name, &format!("%{}", i + 2));
    }
    text
}

// ir T58, scheduler §21.41
#[test]
fn the_order_of_independent_statements_does_not_matter() {
    let arrays = [noise(&[70, 90], 1), noise(&[70, 90], 2)];
    let outcome = |order| {
        let text = statements(order);
        // Within rounding of what the operations give one by one: sums may take another axis for their lanes.
        run(&text, &arrays, 1e-4);
        let explanation = plan(&text).explain();
        (explanation.fused_nodes().len(), explanation.traffic())
    };
    let first = outcome([0, 1, 2, 3, 4]);
    for order in [
        [4, 3, 2, 1, 0],
        [1, 0, 4, 2, 3],
        [3, 4, 0, 2, 1],
        [2, 1, 3, 0, 4],
    ] {
        assert_eq!(outcome(order), first, "{order:?}");
    }
}

// Such a store in a loop over columns writes one element, also where the last vector is not full.
#[test]
fn what_all_lanes_share_is_one_element() {
    for dtype in [DType::F32, DType::F64, DType::I32] {
        for (rows, columns) in [(4, 6), (9, 5), (5, 7)] {
            let text = format!(
                "%0: {dtype}[3, {rows}, {columns}] = input 0 [{}, {columns}, 1]
                 %1: {dtype}[3, {rows}, {columns}] = square(%0)
                 %2: {dtype}[3, {rows}, 1] = max(%1) {{dims: [2], keepdim: true}}
                 %3: {dtype}[3, {rows}, {columns}] = add(%0, %2)
                 %4: {dtype}[{rows}] = max(%3) {{dims: [0, 2], keepdim: false}}
                 return %2 %4",
                rows * columns
            );
            assert_eq!(kernels(&text), 1, "{text}");
            let x = copy::cast(&noise(&[3, rows, columns], 1), dtype);
            run(&text, &[x.expect("memory")], 0.0);
        }
    }
}

/// Two steps of bodies that attract each other: what a loop sums is computed within it, though the inverse cube of a distance is
/// costly and is expanded to three coordinates.
#[test]
fn an_expanded_value_stays_in_the_loop_that_sums_it() {
    let steps = |n: usize| {
        let mut text = format!(
            "%0: f32[{n}, 3] = input 0 [3, 1]
             %1: f32[{n}, 3] = input 1 [3, 1]
             %2: f32[{n}] = input 2 [1]\n"
        );
        let (mut p, mut v) = (0, 1);
        for step in 0..2 {
            let at = |k: usize| 3 + 14 * step + k;
            let [
                r1,
                r2,
                r,
                square,
                sum,
                near,
                power,
                mass,
                weight,
                wide,
                force,
                a,
                pull,
                next,
            ] = std::array::from_fn(at);
            text += &format!(
                "%{r1}: f32[1, {n}, 3] = unsqueeze(%{p}) {{dim: 0}}
                 %{r2}: f32[{n}, 1, 3] = unsqueeze(%{p}) {{dim: 1}}
                 %{r}: f32[{n}, {n}, 3] = sub(%{r1}, %{r2})
                 %{square}: f32[{n}, {n}, 3] = square(%{r})
                 %{sum}: f32[{n}, {n}] = sum(%{square}) {{dims: [2], keepdim: false}}
                 %{near}: f32[{n}, {n}] = add(%{sum}, $0=0.01)
                 %{power}: f32[{n}, {n}] = pow(%{near}, $1=-1.5)
                 %{mass}: f32[1, {n}] = unsqueeze(%2) {{dim: 0}}
                 %{weight}: f32[{n}, {n}] = mul(%{power}, %{mass})
                 %{wide}: f32[{n}, {n}, 1] = unsqueeze(%{weight}) {{dim: 2}}
                 %{force}: f32[{n}, {n}, 3] = mul(%{r}, %{wide})
                 %{a}: f32[{n}, 3] = sum(%{force}) {{dims: [1], keepdim: false}}
                 %{pull}: f32[{n}, 3] = add(%{v}, %{a})
                 %{next}: f32[{n}, 3] = add(%{p}, %{pull})\n"
            );
            (p, v) = (next, pull);
        }
        text + &format!("return %{p} %{v}")
    };
    let masses = |n: usize| filled(&[n], |i| (i % 5) as f32 * 1e-4);
    let arrays = [noise(&[100, 3], 1), noise(&[100, 3], 2), masses(100)];
    run(&steps(100), &arrays, 1e-4);
    let text = steps(4096);
    assert_eq!(kernels(&text), 3, "{}", plan(&text).explain());
}

/// Sums of rows that a reshape makes of a value of [48, 50].
fn sums(value: &str, rows: usize, columns: usize) -> String {
    format!(
        "%0: f32[48, 50] = input 0 [50, 1]
             %1: f32[48, 1] = input 1 [1, 1]
             %2: f32[48, 50] = {value}
             %3: f32[{rows}, {columns}] = reshape(%2) {{to: [{rows}, {columns}]}}
             %4: f32[{rows}] = sum(%3) {{dims: [1], keepdim: false}}
             return %4"
    )
}

// Rows of another length end in the middle of a value's own: skewed scores of relative positions, diagonals, sums of scaled
// rows. Each element would take a division.
#[test]
fn what_is_read_as_rows_of_another_length_is_stored() {
    let skewed = "%0: f32[4, 40, 40] = input 0 [1600, 40, 1]
        %1: f32[4, 40, 41] = pad(%0, 0.0) {pads: [[0, 0], [0, 0], [1, 0]]}
        %2: f32[4, 41, 40] = reshape(%1) {to: [4, 41, 40]}
        %3: f32[4, 40, 40] = narrow(%2) {dim: 1, start: 1, len: 40}
        %4: f32[4, 40, 40] = mul(%3, %0)
        return %4";
    let diagonals = "%0: f32[4, 40, 40] = input 0 [1600, 40, 1]
        %1: f32[4, 40, 41] = pad(%0, 0.0) {pads: [[0, 0], [0, 0], [0, 1]]}
        %2: f32[4, 1640] = reshape(%1) {to: [4, 1640]}
        %3: f32[4, 1600] = narrow(%2) {dim: 1, start: 0, len: 1600}
        %4: f32[4, 40, 40] = reshape(%3) {to: [4, 40, 40]}
        %5: f32[4, 40] = sum(%4) {dims: [1], keepdim: false}
        return %5";
    let (matrix, scores) = (
        [noise(&[48, 50], 1), noise(&[48, 1], 3)],
        [noise(&[4, 40, 40], 2)],
    );
    let scaled = sums("mul(%0, %1)", 40, 60);
    for (text, inputs) in [
        (skewed, &scores[..]),
        (diagonals, &scores),
        (&scaled, &matrix),
    ] {
        run(text, inputs, 1e-5);
        assert_eq!(kernels(text), 2, "{text}");
    }
    // Parts that begin or end within rows which a reshape joins, and parts of one of them.
    for (start, len, count) in [(2, 97, 2), (2, 51, 2), (0, 60, 2), (2, 49, 1), (51, 51, 1)] {
        let part = format!(
            "%0: f32[48, 50] = input 0 [50, 1]
             %1: f32[48, 51] = pad(%0, 0.0) {{pads: [[0, 0], [0, 1]]}}
             %2: f32[24, 102] = reshape(%1) {{to: [24, 102]}}
             %3: f32[24, {len}] = narrow(%2) {{dim: 1, start: {start}, len: {len}}}
             %4: f32[24, {len}] = exp(%3)
             return %4"
        );
        run(&part, &matrix[..1], 1e-5);
        assert_eq!(kernels(&part), count, "{part}");
    }
    // What is repeated: a part that ends within a turn, and whole turns.
    let expanded = "f32[30, 100] = expand(%0) {to: [30, 100]}
             %2: f32[3000] = reshape(%1) {to: [3000]}";
    let repeated = "f32[100] = reshape(%0) {to: [100]}
             %2: f32[3000] = repeat(%1) {counts: [30]}";
    for (of, len, shape, count) in [
        (expanded, 2950, "50, 59", 2),
        (repeated, 2950, "50, 59", 2),
        (expanded, 3000, "60, 50", 1),
        (repeated, 3000, "60, 50", 1),
    ] {
        let turns = format!(
            "%0: f32[1, 100] = input 0 [100, 1]
             %1: {of}
             %3: f32[{len}] = narrow(%2) {{dim: 0, start: 0, len: {len}}}
             %4: f32[{shape}] = reshape(%3) {{to: [{shape}]}}
             %5: f32[{shape}] = exp(%4)
             return %5"
        );
        run(&turns, &[noise(&[1, 100], 4)], 1e-5);
        assert_eq!(kernels(&turns), count, "{turns}");
    }
}

#[test]
fn whole_rows_and_what_depends_on_its_place_alone_are_not_stored() {
    let matrix = [noise(&[48, 50], 1), noise(&[48, 1], 3)];
    // Neither needs a division. Sums of 60 exponentials are about 100, and their order follows the width of vectors: a
    // unit in the last place is 8e-6.
    for (text, error) in [
        (sums("mul(%0, %1)", 24, 100), 1e-5),
        (sums("exp(%0)", 40, 60), 1e-4),
    ] {
        run(&text, &matrix, error);
        assert_eq!(kernels(&text), 1, "{text}");
    }
}

// The loop of a scan has no loop for a part of a row, and no lanes along rows that take turns.
#[test]
fn what_is_interleaved_joined_or_padded_is_stored_before_a_scan() {
    let interleaved = "%0: f32[48, 50, 1] = input 0 [50, 1, 1]
             %1: f32[48, 50, 1] = exp(%0)
             %2: f32[48, 50, 2] = cat(%0, %1) {dim: 2}
             %3: f32[48, 100] = reshape(%2) {to: [48, 100]}";
    let repeated = "%0: f32[48, 50, 1] = input 0 [50, 1, 1]
             %1: f32[48, 50, 2] = expand(%0) {to: [48, 50, 2]}
             %2: f32[48, 100] = reshape(%1) {to: [48, 100]}
             %3: f32[48, 100] = exp(%2)";
    let joined = "%0: f32[48, 50] = input 0 [50, 1]
             %1: f32[48, 50] = exp(%0)
             %2: f32[48, 100] = cat(%0, %1) {dim: 1}
             %3: f32[48, 100] = neg(%2)";
    let padded = "%0: f32[48, 96] = input 0 [96, 1]
             %1: f32[48, 100] = pad(%0, 0.0) {pads: [[0, 0], [1, 3]]}
             %2: f32[48, 100] = neg(%1)
             %3: f32[48, 100] = exp(%2)";
    for (value, shape, dim, count) in [
        (interleaved, &[48, 50, 1][..], 0, 2),
        (interleaved, &[48, 50, 1], 1, 2),
        (repeated, &[48, 50, 1], 0, 2),
        (repeated, &[48, 50, 1], 1, 2),
        (joined, &[48, 50], 0, 2),
        (padded, &[48, 96], 0, 2),
        // A row that is scanned is a loop of parts.
        (joined, &[48, 50], 1, 1),
        (padded, &[48, 96], 1, 1),
    ] {
        let text = format!(
            "{value}
             %4: f32[48, 100] = cumsum(%3) {{dim: {dim}}}
             %5: f32[48, 100] = tanh(%4)
             return %5"
        );
        run(&text, &[noise(shape, 1)], 1e-5);
        assert_eq!(kernels(&text), count, "{text}\n{}", plan(&text).explain());
    }
}

// Behind an element that is put before them, pairs of elements begin at odd places.
#[test]
fn interleaved_rows_are_stored_before_they_are_padded_or_joined() {
    let behind = |reader: &str, columns: usize| {
        format!(
            "%0: f32[48, 25, 1] = input 0 [25, 1, 1]
             %1: f32[48, 25, 1] = exp(%0)
             %2: f32[48, 25, 2] = cat(%1, %0) {{dim: 2}}
             %3: f32[48, 50] = reshape(%2) {{to: [48, 50]}}
             %4: f32[48, {columns}] = {reader}
             %5: f32[48, {columns}] = exp(%4)
             return %5"
        )
    };
    let inputs = [noise(&[48, 25, 1], 1)];
    for (reader, columns, count) in [
        ("pad(%3, 0.0) {pads: [[0, 0], [1, 2]]}", 53, 2),
        ("cat(%3, %3) {dim: 1}", 100, 2),
        ("mul(%3, %3)", 50, 1),
    ] {
        let text = behind(reader, columns);
        run(&text, &inputs, 1e-5);
        assert_eq!(kernels(&text), count, "{text}\n{}", plan(&text).explain());
    }
}

// Each reshape divides the index that the one before it divides: the text of one kernel would grow several times with each.
#[test]
fn few_reshapes_in_a_row_are_undone_by_one_kernel() {
    let (mut text, mut n) = (
        "%0: f32[4000] = input 0 [1]\n%1: f32[4000] = exp(%0)".to_owned(),
        4000,
    );
    let mut last = 1;
    for _ in 0..20 {
        let (half, left) = (n / 2, n / 2 - 1);
        text += &format!(
            "\n%{}: f32[2, {half}] = reshape(%{last}) {{to: [2, {half}]}}
             %{}: f32[2, {left}] = narrow(%{}) {{dim: 1, start: 0, len: {left}}}
             %{}: f32[{}] = reshape(%{}) {{to: [{}]}}",
            last + 1,
            last + 2,
            last + 1,
            last + 3,
            2 * left,
            last + 2,
            2 * left
        );
        (last, n) = (last + 3, 2 * left);
    }
    text += &format!(
        "\n%{}: f32[{n}] = exp(%{last})\nreturn %{}",
        last + 1,
        last + 1
    );
    let x = noise(&[4000], 1);
    run(&text, &[x], 1e-5);
    let explained = plan(&text).explain();
    assert!((2..=12).contains(&kernels(&text)), "{}", kernels(&text));
    assert!(explained.to_string().len() < 1 << 19);
}
