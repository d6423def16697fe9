//! Values that a device's threads keep in registers from one loop over a row to the next.

use super::parts::checked;
use std::fmt::Write as _;

/// A graph, line by line.
struct Lines {
    text: String,
    next: usize,
}

impl Lines {
    /// So many inputs of one type, `f32[200]`, of one dimension or as many as it has.
    fn of(inputs: &[(&str, &str)]) -> Lines {
        let mut text = String::new();
        for (at, (of, strides)) in inputs.iter().enumerate() {
            let _ = writeln!(text, "%{at}: {of} = input {at} [{strides}]");
        }
        Lines {
            text,
            next: inputs.len(),
        }
    }

    fn add(&mut self, of: &str, operation: &str) -> usize {
        let _ = writeln!(self.text, "%{}: {of} = {operation}", self.next);
        self.next += 1;
        self.next - 1
    }

    fn end(mut self, results: &[usize]) -> String {
        self.text += "return";
        results.iter().for_each(|r| self.text += &format!(" %{r}"));
        self.text
    }
}

/// A vector without its parts along so many others, one after another, and its length.
fn projections(count: usize, n: usize) -> String {
    let vector = format!("f32[{n}]");
    let inputs = vec![(vector.as_str(), "1"); count + 1];
    let mut lines = Lines::of(&inputs);
    let mut rest = count;
    for other in 0..count {
        let product = lines.add(&vector, &format!("mul(%{other}, %{rest})"));
        let along = lines.add(
            "f32[1]",
            &format!("sum(%{product}) {{dims: [0], keepdim: true}}"),
        );
        let along = lines.add("f32[1]", &format!("mul(%{along}, 0.005)"));
        let along = lines.add(&vector, &format!("expand(%{along}) {{to: [{n}]}}"));
        let part = lines.add(&vector, &format!("mul(%{along}, %{other})"));
        rest = lines.add(&vector, &format!("sub(%{rest}, %{part})"));
    }
    let square = lines.add(&vector, &format!("square(%{rest})"));
    let length = lines.add(
        "f32[]",
        &format!("sum(%{square}) {{dims: [0], keepdim: false}}"),
    );
    lines.end(&[rest, length])
}

// Each loop takes the vector from the one before: computed again, it takes all loops before once more.
#[test]
fn texts_of_loops_one_after_another_grow_linearly() {
    let length = |count| {
        let texts = checked(&projections(count, 200), 1e-2);
        assert_eq!(texts.len(), 1, "{count} projections are one kernel");
        texts[0].len()
    };
    let (short, long) = (length(8), length(16));
    assert!(long < short * 9 / 4, "{short} bytes of 8, {long} of 16");
    // A row of several chunks a thread, and one that is no multiple of a chunk.
    for n in [1000, 77] {
        checked(&projections(6, n), 1e-1);
    }
}

/// Rows picked at indices that were picked themselves, so many times, then what `then` does with the last.
fn search(steps: usize, n: usize, then: impl FnOnce(&mut Lines, usize) -> Vec<usize>) -> String {
    let (indices, numbers) = (format!("i64[{n}]"), format!("f32[{n}]"));
    let mut lines = Lines::of(&[(&indices, "1"), (&numbers, "1")]);
    let size = lines.add(&indices, &format!("remainder(%0, {n})"));
    let mut at = size;
    for step in 0..steps {
        let found = lines.add(&indices, &format!("gather(%{size}, %{at}) {{dim: 0}}"));
        let moved = lines.add(&indices, &format!("add(%{found}, {step})"));
        at = lines.add(&indices, &format!("remainder(%{moved}, {n})"));
    }
    let picked = lines.add(&numbers, &format!("gather(%1, %{at}) {{dim: 0}}"));
    let results = then(&mut lines, picked);
    lines.end(&results)
}

// A softmax has three loops, a sum behind it a fourth.
#[test]
fn searches_are_not_repeated_by_later_loops() {
    let n = 300;
    let numbers = format!("f32[{n}]");
    let softmax = |lines: &mut Lines, x: usize| {
        let weights = lines.add(&numbers, &format!("softmax(%{x}) {{dim: 0}}"));
        let product = lines.add(&numbers, &format!("mul(%{weights}, %{x})"));
        let mean = lines.add(
            "f32[]",
            &format!("sum(%{product}) {{dims: [0], keepdim: false}}"),
        );
        vec![weights, mean]
    };
    let picks = |steps| {
        let texts = checked(&search(steps, n, softmax), 1e-4);
        let picks = |text: &String| text.matches("ft_index(").count();
        texts.iter().map(picks).sum::<usize>()
    };
    assert_eq!(picks(6), picks(3) + 3);
}

// What a scan computes is kept, too, and so are numbers of eight bytes.
#[test]
fn scans_are_not_repeated_by_later_loops() {
    let n = 500;
    let (numbers, indices) = (format!("f32[{n}]"), format!("i64[{n}]"));
    let scan = |lines: &mut Lines, x: usize| {
        let sums = lines.add(&numbers, &format!("cumsum(%{x}) {{dim: 0}}"));
        let most = lines.add(
            "f32[1]",
            &format!("max(%{sums}) {{dims: [0], keepdim: true}}"),
        );
        let most = lines.add(&numbers, &format!("expand(%{most}) {{to: [{n}]}}"));
        let below = lines.add(&numbers, &format!("sub(%{sums}, %{most})"));
        let whole = lines.add(&indices, &format!("to_dtype(%{below}) {{dtype: i64}}"));
        let total = lines.add(
            "i64[1]",
            &format!("sum(%{whole}) {{dims: [0], keepdim: true}}"),
        );
        let total = lines.add(&indices, &format!("expand(%{total}) {{to: [{n}]}}"));
        let last = lines.add(&indices, &format!("sub(%{whole}, %{total})"));
        vec![below, last]
    };
    let texts = checked(&search(4, n, scan), 1e-2);
    let scans = texts.iter().map(|text| text.matches("ft_prefix(").count());
    assert_eq!(scans.sum::<usize>(), 1);
}
