//! The bounds by which passes decide, in one table: name, value, unit, where the value comes from, and what it decides.
//!
//! What a device can do is no threshold but a fact of its [`Target`](crate::target::Target). Constants of a text's form
//! (alignment, what one statement holds) stay with what writes the text.

/// Makes the struct, its defaults, and for each field a line of documentation with value, unit and origin.
macro_rules! thresholds {
    ($($(#[doc = $why:literal])+ $name:ident: $type:ty = $value:expr, $unit:literal, $from:expr;)+) => {
        /// Bounds that passes are given. Tests and measuring override single ones:
        ///
        /// ```
        /// use ferrotrace_jit::policy::Thresholds;
        /// let unbound = Thresholds { held_share: 0, ..Thresholds::default() };
        /// assert_eq!(unbound.reads, Thresholds::default().reads);
        /// ```
        #[derive(Clone, Debug)]
        pub struct Thresholds {
            $(
                $(#[doc = $why])+
                #[doc = ""]
                #[doc = concat!("`", stringify!($value), "` ", $unit, ", from: ", $from, ".")]
                pub $name: $type,
            )+
        }

        impl Default for Thresholds {
            fn default() -> Thresholds {
                Thresholds { $($name: $value,)+ }
            }
        }
    };
}

thresholds! {
    // What is stored, and what is computed again where it is used.

    /// A value of several users that reads more buffers than this is stored (ir B9: costly reads are not repeated).
    reuse_reads: u32 = 4, "buffers", "TorchInductor's default";
    /// A value of several users with more operations than this is stored (ir B9: costly values are not repeated).
    reuse_ops: u32 = 30, "operations", "TorchInductor's default";
    /// A value that reads more buffers than this is stored (ir B11: bounded reads of an expression).
    reads: u32 = 8, "buffers", "TorchInductor's default";
    /// A value with more operations than this is stored (codegen B2.7: bounded size of an expression).
    ops: u32 = 100, "operations", "an estimate";
    /// Repeated steps become a loop where that leaves out so many parts of expressions.
    rerolled: usize = 1000, "parts", "a bound on compile time: 25 ms of the C compiler";
    /// Values looked at behind one for whether storing it lets others go.
    freed_values: usize = 32, "values", "a bound on planning time";
    /// A value of at least so many bytes, which does not stay in the cache, is computed again by the kernel that reads it
    /// even if that takes a costly function: an `exp` takes 0.2 ns, writing and reading a float 0.8 ns.
    again_bytes: u64 = 8 << 20, "bytes", "the times given, on two processors with AVX-512 (x86-64)";
    /// A value that a larger one repeats along its first dimensions is computed in a kernel of its own where that one has more
    /// elements than this: in one kernel the larger one would be written across memory.
    across_elements: usize = 1 << 10, "elements", "`elements` in benches/RESULTS.md: a kernel's start against strided writes";
    /// What pads or joins an operand that lies across its result and has at least so many elements is a ready-made kernel.
    tiled_elements: usize = 1 << 10, "elements", "`elements` in benches/RESULTS.md: a kernel's start against reads across memory";
    /// Values of fewer elements are stored row-major, whatever they read (ir L12: small values have one order).
    order_elements: usize = 1 << 12, "elements", "an estimate";
    /// Rows of reductions of so many elements are computed in the order in which most operands lie.
    turned_rows: usize = 16, "elements", "`elements` in benches/RESULTS.md (`sums_of_permuted`)";
    /// Reductions of so many elements take them in the order in which they lie. Windows of pools, which have an order of
    /// their own, are smaller.
    turned_columns: usize = 128, "elements", "`elements` in benches/RESULTS.md (`sum_of_transposed`)";

    /// Matrix products that are summed are one of longer rows where theirs have at most half as many elements.
    summed_length: usize = 256, "elements", "an estimate: a product reads and writes the sum as often as it computes 256 terms";
    /// Its rows have at most so many.
    summed_rows: usize = 1024, "elements", "a bound on the memory for copies of operands; longer rows gain little";
    /// Matrix products by matrices of at most so many rows and columns are sums of products.
    small_matrix: usize = 8, "elements", "`kalman` in benches/RESULTS.md";
    /// Matrix products of at most so many rows by one matrix are computed together: one of more reads its matrix in less
    /// time than it multiplies it.
    hoisted_few: usize = 64, "rows", "an estimate: an element of the matrix is read in the time of 20 to 60 products";
    /// As far as they have at most so many rows together; with 0 none are.
    hoisted_rows: usize = 1024, "rows", "an estimate: more gain little";

    // Reductions, windows and pools.

    /// Reductions of fewer elements become straight-line code (ir R8: short reductions have no loop).
    unroll: usize = 8, "elements", "TorchInductor's default";
    /// A loop of at most so many turns beside a longer one is written out on the CPU, and lanes run along the longer one.
    unrolled: usize = 16, "turns", "`short axes` in benches/RESULTS.md";
    /// Several short loops of at most so many turns together beside a loop of many turns are written out on the CPU, too.
    unrolled_together: usize = 64, "turns", "`layer_of_eight` in benches/RESULTS.md";
    /// Loops are not written out where that makes more values.
    unrolled_values: usize = 400, "values", "a bound on compile time";
    /// Windows that slide along rows and are written out by no kernel have lanes along the rows where they have fewer elements along
    /// themselves, of up to 4 bytes.
    sliding: usize = 64, "elements", "`places_in_windows` in benches/RESULTS.md";
    /// And fewer of 8 bytes.
    sliding_wide: usize = 48, "elements", "`places_in_windows` in benches/RESULTS.md";
    /// Reductions over windows of fewer elements do, where rows share what they read.
    window: usize = 10, "elements", "an estimate";
    /// Reductions over windows of fewer elements do, where a thread computes each result: up to 5x5.
    window_alone: usize = 26, "elements", "an estimate: 25 reads of a thread";
    /// A gather is stored on the CPU where each element would be computed for at least so many places: one shift alone reads each once.
    gathered_places: usize = 150, "hundredths", "`neighbours_of_gathered` in benches/RESULTS.md";
    /// A device stores an operand of at least so many operations that is expanded to many elements, rather than compute it
    /// for each of them.
    expanded_ops: u32 = 3, "operations", "an estimate: a load from the cache";
    /// An operand is expanded to many elements where they are at least so many.
    expanded_elements: usize = 1 << 20, "elements", "an estimate: the time of a launch";
    /// And on the CPU, where a costly function would be computed again, at least so many.
    expanded_lanes: usize = 1 << 15, "elements", "an estimate: a kernel takes the time of some 10,000 exponentials";
    /// An operand is expanded to many elements where they are so many times as many as its own.
    expanded_times: usize = 64, "times", "an estimate";
    /// Costly functions of at least so many rows, whose columns share them, have a kernel of their own, which has lanes.
    scalar_rows: usize = 256, "rows", "`elements` in benches/RESULTS.md: a kernel's start against functions without lanes";
    /// Such rows have at least so many columns: fewer write and read as much as they share.
    scalar_columns: usize = 8, "columns", "an estimate: an eighth of what the kernel reads";
    /// So many reads of such rows at places that are looked up count as a costly function.
    scalar_reads: usize = 4, "reads", "an estimate: a search takes as many dependent reads as its table has bits";
    /// At least so many operations on bytes and truth values have a kernel of their own, which has a lane for each byte.
    byte_ops: usize = 8, "operations", "`elements` in benches/RESULTS.md: three quarters of the operations against writing and reading a byte";
    /// They do where they compute at least so many elements.
    byte_elements: usize = 1 << 12, "elements", "`elements` in benches/RESULTS.md: a kernel's start against operations without lanes";
    /// A costly value is stored where windows on it that overlap have at least so many elements.
    window_elements: usize = 1 << 12, "elements", "an estimate: a kernel takes the time of some 1,000 exponentials";
    /// Such windows have at least so many times the elements of the value.
    window_times: usize = 3, "times", "an estimate";
    /// What windows that overlap are of is stored if it has more operations and reads than this, where rows share reads.
    window_ops: u32 = 2, "operations and reads", "an estimate";
    /// Pools by windows of at most so many elements are loops; others are ready-made, but those of whole planes, which are
    /// reductions like others.
    pool_taps: usize = 9, "elements", "`pools and what follows` in benches/RESULTS.md";
    /// Most phases of a transposed convolution that are a convolution each, where others of them are zeros.
    phases: usize = 64, "phases", "a bound on planning time";
    /// The phases of a transposed convolution are one where its work grows by this at most, by zeros among taps and
    /// positions.
    phases_waste: f64 = 1.25, "times", "an H200: 1.03 of the time of phases apart at 1.13, 1.8 at 1.27";
    /// A reduction into fewer results than this over a large input is split into chunks.
    split_rows: usize = 4, "rows", "an estimate, which measuring may change";
    /// Fewer adjacent rows, whose long columns lie across memory, are reduced in one kernel and stored by another. Of more
    /// rows, what computes a mean and a variance would lose as much as what computes one of them would win.
    narrow_rows: usize = 16, "rows", "`elements` in benches/RESULTS.md (`columns_less_means`, `softmax_over_points`)";
    /// Elements from which such a reduction is split.
    split_elements: usize = 1 << 16, "elements", "an estimate";
    /// Threads that fill a device: rows that have fewer are cut where that pays.
    full_threads: usize = 1 << 17, "threads", "half of what an H200 holds at once";
    /// A device's rows are cut where the threads that idle could take so many elements meanwhile.
    split_gain: usize = 1 << 23, "elements", "an estimate: two launches, at the speed of memory";

    // Concatenations and assignments.

    /// Concatenations of more operands are copied (ir `max_pointwise_cat_inputs`: each operand is a branch of the kernel).
    cat: usize = 8, "operands", "TorchInductor's default";
    /// Operands of a concatenation that one kernel reads, where only a library's copies could join more.
    cat_parts: usize = 8, "operands", "TorchInductor's default";
    /// The parts of a concatenation are written in place on a device where selecting among them would compute so many
    /// operations an element that count for nothing.
    cat_waste: usize = 16, "operations", "an H200: 20 sines and cosines joined take 539 us selected, of 66 MB written";
    /// The parts of a concatenation are written in place where that saves this many bytes a part, or leaves nothing else
    /// to do.
    cat_bytes: u64 = 1 << 14, "bytes a part", "an estimate: the cost of a launch";
    /// Values looked at for what still reads a tensor that is written to.
    update_values: usize = 64, "values", "a bound on planning time";
    /// Most splits of one nest that remove a division.
    splits: usize = 8, "splits", "a bound on planning time";

    // Scans and scatters.

    /// A scan of at least this many elements a row is split into blocks by the ready-made kernel (ir C4: long scans are not
    /// one thread's), if there are fewer rows than `scan_rows`.
    scan_length: usize = 1 << 16, "elements", "an estimate";
    /// Rows from which scans of any length are generated loops.
    scan_rows: usize = 16, "rows", "an estimate: threads of a small machine";
    /// Elements from which a source that is written lane by lane on one thread is computed before, on all threads, for
    /// a ready-made kernel: 2^20 products into as many zeros take 2.7 ms so, and 4.1 ms in one loop.
    serial_scatter: usize = 1 << 14, "elements", "the times given, on two processors with AVX-512 (x86-64)";
    /// Floats that may be added to one place of a scatter one after another: more are for the ready-made kernel, which
    /// keeps what is lost where many do meet.
    meeting: usize = 2048, "floats", "the rounding error of as many additions";

    // Fusion.

    /// Most nests of one fused node (scheduler L-14: bounded size).
    fusion_nests: usize = 64, "nests", "TorchInductor's default";
    /// Most operations of one fused node.
    fusion_ops: usize = 160, "operations", "an estimate";
    /// Most buffers that a fused node may read and write (scheduler L-18: bounded arguments): a device takes at most 32 KiB
    /// of arguments, 8 bytes of which are a buffer's address and some more its strides.
    fusion_buffers: usize = 256, "buffers", "CUDA's limit on arguments";
    /// Most other nodes each node is compared with through one buffer (scheduler F-11: bounded candidates).
    pairs: usize = 64, "nodes", "TorchInductor's default";
    /// Most rounds of fusion (scheduler F-01: rounds until nothing changes).
    rounds: usize = 10, "rounds", "TorchInductor's default";
    /// Horizontal fusion must share at least this many bytes (scheduler L-17: unrelated kernels stay apart).
    shared_bytes: u64 = 10, "bytes", "TorchInductor's default";
    /// Nodes further apart are not fused horizontally (scheduler L-16: values are not held for long).
    distance: usize = 64, "steps", "TorchInductor's default";
    /// Fusing may hold more memory at once by this many times the bytes that it saves (scheduler B-12: veto by memory).
    veto_factor: u64 = 32, "times", "TorchInductor's default";
    /// And by this many bytes in any case: a launch costs as much time.
    veto_bytes: u64 = 1 << 16, "bytes", "an estimate: the cost of a launch";
    /// Calls of one costly function in a kernel from which it is not inlined: compiling 30 inlined sines takes 0.4 s, 30
    /// calls 0.05 s.
    outlined_calls: usize = 8, "calls", "the times given, of gcc 12";
    /// Vectors of a row from which on its loop is split where conditions on columns change: a shorter row is over before
    /// the places are found.
    index_set_vectors: usize = 6, "vectors", "joined, padded and shifted rows, with AVX-512 and AVX2 (x86-64)";
    /// Bytes of a table whose gathered rows are asked for ahead, at least. Rows of a smaller one come from a cache, and asking
    /// takes longer than reading them: sums of 32 rows each of a table of 1.3 MB take 0.62 to 0.72 of the time without it, of
    /// one of 51 MB 1.05 to 1.07.
    prefetched_table: usize = 32 << 20, "bytes", "the times given, on two processors with AVX-512 (x86-64)";

    // Kernels before and behind products.

    /// A kernel before a product computes its operand panel by panel if the other side of the product has at most so many
    /// rows or columns (scheduler T-02: the operand is computed once).
    prologue_short: usize = 256, "rows or columns", "an estimate, which measuring may change";
    /// And the side that panels cut at least so many: two panels of columns.
    prologue_long: usize = 192, "rows or columns", "the width of panels";
    /// A kernel before a product reads at most so many percent of what it would store (scheduler T-04: it moves no more).
    prologue_reads: u64 = 110, "percent", "TorchInductor's rule";
    /// A kernel of more values behind a product is nothing that a library computes.
    epilogue_values: usize = 40, "values", "the largest activation that is one";
    /// Most operations that attention computes with each of its scores.
    score_ops: usize = 24, "operations", "an estimate";

    // Generated products of a device.

    /// Operations of a product that take as long as moving a byte: 700 TFLOP/s by 4.2 TB/s, and about the same since
    /// Ampere.
    product_work: u64 = 160, "operations a byte", "the figures given";
    /// Bytes moved in the time that a launch of its own costs: 3 µs.
    product_launch: u64 = 12 << 20, "bytes", "the time given, on an H200";
    /// Bytes moved in the time that the library takes longer for a product of few rows: it sums pieces in a second kernel.
    library_few: u64 = 22 << 20, "bytes", "an H200's library: 8 to 16 µs for 2 to 34 MB";
    /// A half-precision product of a device with lines that begin at no multiple of 16 bytes takes so many times as long.
    unaligned_cost: u64 = 4, "times", "an H200's library: 6.7 ms for 0.9 with 50,257 columns";
    /// Bytes moved in the time in which what follows is done to a column of a tile.
    product_follow: u64 = 150_000, "bytes", "docs/gpu-validation.md";
    /// By how many percent a generated product is slower than the library's: of groups of warps, of warps.
    product_deficit: [u64; 2] = [20, 35], "percent", "docs/gpu-validation.md";
    /// Fewest rows, columns and terms of a generated product.
    product_least: usize = 64, "elements", "the sides of a tile";
    /// Most rows of a generated product that reads its operands from memory into registers.
    stream_rows: usize = 32, "rows", "registers of a warp";
    /// By how many percent it takes longer than moving its bytes.
    stream_deficit: u64 = 30, "percent", "docs/gpu-validation.md";
    /// And one that reads lines of terms: always, and for each row.
    line_deficit: [u64; 2] = [30, 4], "percent", "an H200: 15.4 µs for 34 MB and 8 rows, 24 µs for 32 rows";
    /// Bytes moved in the time in which an element of its right operand is computed and multiplied.
    stream_element: u64 = 4, "bytes", "docs/gpu-validation.md";
    /// And one of its left operand, for each tile of columns.
    stream_left: u64 = 2, "bytes", "an H200: 36 µs for 32 rows of silu(a) b of 8192 terms and 2048 columns, 15 µs apart";
    /// How many times as fast as memory the second cache is: each block reads rows of the left matrix from it.
    stream_cached: u64 = 2, "times", "docs/gpu-validation.md";

    /// A device notes the last row that is assigned to each of at most so many places for each row.
    last_places: usize = 64, "places a row", "an estimate: four bytes a place are cleared, and rows not sorted";

    // Order of steps, and memory.

    /// Most steps that could run next of which the one that needs least memory is looked for (scheduler B-16: a window).
    ready: usize = 64, "steps", "a bound on planning time";
    /// At its peak a plan holds at most one part in so many more than the recorded operations one by one: fusions are
    /// given up until it does. With 0 it may hold whatever it likes.
    held_share: u64 = 16, "parts", "the contract on memory";
    /// It may hold so many bytes more in any case, a page of memory: a launch costs more.
    held_least: u64 = 4096, "bytes", "a page";
    /// In at most so many rounds.
    held_rounds: usize = 12, "rounds", "a bound on planning time";
    /// Most values that are looked at in such a round, for each operation of the graph.
    held_visits: usize = 32, "values", "a bound on planning time";
    /// Of longer runs of steps that hold too much, one place is looked at for every so many.
    held_run: usize = 32, "steps", "a bound on planning time";
    /// Bytes of a value from which there may be no memory for it: a run that makes one may fail.
    scarce_bytes: usize = 1 << 20, "bytes", "an estimate";
    /// Results of fewer bytes hold the product they are made of, which then needs no scratch memory: that is no more than
    /// an eighth of a larger result.
    scratch_bytes: usize = 8 << 20, "bytes", "eight panels of a product";

    // Launches.

    /// Most kernels of one combined launch; 1 launches each alone (scheduler C-08: bounded members).
    combined_members: usize = 64, "kernels", "an estimate, which measuring may change";
    /// Kernels of less work than this each, on average, in bytes moved, are launched alone, where they are few: preparing a
    /// launch of several costs more than a second thread saves (scheduler C-09: small kernels).
    combined_least: u64 = 16 << 10, "bytes", "an estimate";
    /// So many kernels share a launch however small they are: 2 updates of 8 to 5,000 elements took 1.2 times as long
    /// together as alone, 8 as long, 100 of them 0.8 (one thread) and 0.5 (two).
    combined_many: usize = 8, "kernels", "`small updates and positions` in benches/RESULTS.md";
    /// A kernel of more work than this, in bytes moved, is launched alone (scheduler C-13: it fills the machine).
    combined_work: u64 = 64 << 20, "bytes", "an estimate";
    /// Most bytes by which a combined launch may exceed what its members, launched one by one, would keep.
    combined_held: usize = 0, "bytes", "the contract on memory";
    /// Times as many kernels share a launch where a table says what each does.
    table_members: usize = 64, "times", "lists of an optimiser's tensors";
    /// Most bytes that these keep longer than they would alone.
    table_held: usize = 256 << 20, "bytes", "an estimate: a share of a device's memory";
    /// A launch or call of less work than this, in bytes moved, is done by one thread. A second one, awake, saved nothing
    /// below 64 KiB (2 to 10 µs alone), a third of a softmax at 128 KiB, where one asleep costs more, nothing of products
    /// up to 128 KiB; and a half above 256 KiB.
    solo_work: u64 = 128 << 10, "bytes", "`small updates and positions` in benches/RESULTS.md";
    /// Bytes that ready-made kernels but products count as moving for an element.
    solo_element: u64 = 8, "bytes", "an estimate";
    /// Operations of a ready-made product that take as long as moving a byte.
    solo_product: u64 = 8, "operations a byte", "an estimate";
    /// Kernels that read a tensor of at least so many bytes go through it together, slice by slice (scheduler X2-04: only
    /// what no cache holds).
    abreast_bytes: usize = 16 << 20, "bytes", "an estimate: less than a last cache";
    /// Bytes of a slice, where the kernels can be cut so finely: it stays in the second cache from one to the next.
    abreast_slice: usize = 256 << 10, "bytes", "an estimate: a quarter of a second cache";
    /// Fewest launches in a row on a device that become a graph (scheduler G-08: short runs are not worth one): launching
    /// one takes the host less time than two launches.
    graph_least: usize = 2, "launches", "the time given";
    /// Runs of a plan before that: making a graph takes as long as some runs.
    graph_runs: u32 = 2, "runs", "an estimate";
    /// Most graphs for the same launches, for inputs whose memory is shared or given away differently.
    graph_forms: usize = 4, "graphs", "an estimate";
    /// Indices of a plan of at least this much work, in bytes moved, are checked ahead of it, where faults are reported
    /// late.
    checked_ahead: u64 = 1 << 20, "bytes", "an estimate";
    /// And by kernels that move at most one in so many bytes of what the plan moves.
    checked_share: u64 = 16, "parts", "an estimate";

    // Advice.

    /// Bytes from which two kernels that both touch a buffer are worth a hint: some tens of microseconds.
    hint_bytes: u64 = 1 << 20, "bytes", "an estimate";
}
