//! Graphs whose kernels have every form that kernels of a device have: rows of threads, warps and blocks, columns, pieces,
//! tiles, scans, look-back, sums about a mean and of exponentials, edges.

/// Their text.
pub const TYPICAL: &[&str] = &[
    "%0: f32[1000] = input 0 [1]
     %1: f32[1000] = mul(%0, $0=0.5)
     %2: f32[1000] = tanh(%1)
     return %2",
    "%0: bf16[512, 3000] = input 0 [3000, 1]
     %1: bf16[512, 3000] = gelu(%0)
     return %1",
    "%0: f32[4096, 8192] = input 0 [8192, 1]
     %1: f32[4096, 8192] = softmax(%0) {dim: 1}
     return %1",
    "%0: f32[64, 100] = input 0 [100, 1]
     %1: f32[100] = input 1 [1]
     %2: f32[64, 100] = layer_norm(%0, %1, %1, $0=1e-5) {n: 1, weight: true, bias: true}
     return %2",
    "%0: f32[64, 1000] = input 0 [1000, 1]
     %1: f32[64] = sum(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[64, 1000] = input 0 [1000, 1]
     %1: f32[1000] = sum(%0) {dims: [0], keepdim: false}
     return %1",
    "%0: f32[16384, 8192] = input 0 [8192, 1]
     %1: f32[8192] = sum(%0) {dims: [0], keepdim: false}
     return %1",
    "%0: f64[3000, 1000] = input 0 [1000, 1]
     %1: f64[] = sum(%0) {dims: [0, 1], keepdim: false}
     %2: f64[] = sqrt(%1)
     return %2",
    "%0: f16[640, 1000] = input 0 [1000, 1]
     %1: i64[640] = argmax(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[2, 1000000] = input 0 [1000000, 1]
     %1: i64[2] = argmin(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[3, 40] = input 0 [40, 1]
     %1: f32[3, 50] = input 1 [50, 1]
     %2: f32[3, 40] = neg(%0)
     %3: f32[3, 90] = cat(%2, %1) {dim: 1}
     return %3",
    "%0: i32[3, 40] = input 0 [40, 1]
     %1: i32[6, 42] = pad(%0, $0=7) {pads: [[1, 2], [3, -1]]}
     return %1",
    "%0: f32[50, 60] = input 0 [60, 1]
     %1: i64[50, 30] = input 1 [30, 1]
     %2: f32[50, 30] = gather(%0, %1) {dim: 1}
     return %2",
    "%0: f32[33, 65] = input 0 [65, 1]
     %1: f32[65, 33] = input 1 [33, 1]
     %2: f32[33, 65] = permute(%1) {order: [1, 0]}
     %3: f32[33, 65] = add(%0, %2)
     return %3",
    "%0: bf16[3, 200, 300] = input 0 [60000, 300, 1]
     %1: bf16[3, 200, 300] = input 1 [60000, 1, 200]
     %2: f64[3, 200, 300] = input 2 [60000, 1, 200]
     %3: f64[3, 200, 300] = to_dtype(%0) {dtype: f64}
     %4: f64[3, 200, 300] = mul(%3, %2)
     %5: f64[3, 200, 300] = to_dtype(%1) {dtype: f64}
     %6: f64[3, 200, 300] = add(%5, %4)
     return %6",
    "%0: f32[40, 50] = input 0 [1, 40]
     %1: f32[40, 1] = input 1 [1, 1]
     %2: f32[40, 1] = abs(%1)
     %3: f32[40, 50] = expand(%2) {to: [-1, 50]}
     %4: f32[40, 50] = add(%0, %3)
     return %2 %4",
    "%0: f32[30, 100000] = input 0 [100000, 1]
     %1: f32[30] = logsumexp(%0) {dims: [1], keepdim: false}
     %2: f32[30] = var(%0) {dims: [1], keepdim: false, correction: 0}
     return %1 %2",
    "%0: f32[500, 90001] = input 0 [90001, 1]
     %1: f32[500, 90001] = log_softmax(%0) {dim: 1}
     return %1",
    "%0: f64[500, 3000] = input 0 [3000, 1]
     %1: f64[3000] = var(%0) {dims: [0], keepdim: false, correction: 1}
     return %1",
    "%0: f32[500] = randn($0=1, $1=2)
     %1: f32[500] = input 0 [1]
     %2: f32[500] = add(%1, %0)
     return %2",
    "%0: f32[70000, 40000] = input 0 [40000, 1]
     %1: f32[70000, 40000] = abs(%0)
     return %1",
    "%0: f32[16384, 8192] = input 0 [8192, 1]
     %1: f32[16384, 8192] = cumsum(%0) {dim: 1}
     return %1",
    "%0: bf16[600, 9000] = input 0 [9000, 1]
     %1: bf16[600, 9000] = cumsum(%0) {dim: 0}
     %2: bf16[600, 9000] = cumsum(%1) {dim: 0}
     return %1 %2",
    "%0: bf16[600, 9001] = input 0 [9001, 1]
     %1: i64[600, 9001] = cummax(%0) {dim: 1, indices: true}
     %2: bf16[600, 9001] = cummin(%0) {dim: 1}
     return %1 %2",
    "%0: f64[2, 1000000] = input 0 [1000000, 1]
     %1: f64[2, 1000000] = cumprod(%0) {dim: 1}
     return %1",
    "%0: i32[3, 1000001] = input 0 [1000001, 1]
     %1: i64[3, 1000001] = cumsum(%0) {dim: 1}
     %2: i32[3, 1000001] = cummin(%0) {dim: 1}
     return %1 %2",
    "%0: bool[2, 3000000] = input 0 [3000000, 1]
     %1: bool[2, 3000000] = cummax(%0) {dim: 1}
     return %1",
    "%0: f32[1000000, 3] = input 0 [3, 1]
     %1: f32[1000000, 3] = cumsum(%0) {dim: 0}
     return %1",
    "%0: i8[1000000, 3] = input 0 [3, 1]
     %1: i64[1000000, 3] = cumsum(%0) {dim: 0}
     return %1",
    "%0: u8[30, 40] = input 0 [40, -1]
     %1: u8[30, 40] = cummax(%0) {dim: 1}
     %2: i64[30, 40] = cumsum(%0) {dim: 1}
     return %1 %2",
    "%0: f32[10, 20] = input 0 [-40, 2]
     %1: f32[10, 20] = abs(%0)
     return %1",
    "%0: bf16[5000, 1024] = input 0 [1024, 1]
     %1: i64[3000] = input 1 [1]
     %2: bf16[3000, 1024] = index(%0, %1) {axes: [0], at: 0}
     %3: bf16[3000, 1024] = mul(%2, $0=2.0)
     return %3",
    "%0: bf16[8192, 50257] = input 0 [50257, 1]
     %1: i64[8192] = input 1 [1]
     %2: bf16[] = cross_entropy(%0, %1)
     return %2",
    "%0: bf16[16384, 4096] = input 0 [4096, 1]
     %1: bf16[4096] = input 1 [1]
     %2: f32[16384, 4096] = to_dtype(%0) {dtype: f32}
     %3: f32[4096] = to_dtype(%1) {dtype: f32}
     %4: f32[16384, 4096] = mul(%2, %3)
     %5: f32[16384] = sum(%4) {dims: [1], keepdim: false}
     %6: bf16[16384] = to_dtype(%5) {dtype: bf16}
     return %6",
    "%0: f32[3000, 100] = input 0 [100, 1]
     %1: i64[100] = argmax(%0) {dims: [0], keepdim: false}
     %2: f32[100] = max(%0) {dims: [0], keepdim: false}
     return %1 %2",
    "%0: f32[2, 1000000] = input 0 [1000000, 1]
     %1: f32[2] = var(%0) {dims: [1], keepdim: false, correction: 1}
     return %1",
    "%0: f32[100, 3000] = input 0 [3000, 1]
     %1: f32[100] = var(%0) {dims: [1], keepdim: false, correction: 1}
     return %1",
    "%0: f32[40, 9001] = input 0 [9001, 1]
     %1: f32[40] = sum(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[8, 30000] = input 0 [30000, 1]
     %1: f32[8, 30000] = softmax(%0) {dim: 1}
     return %1",
    "%0: bf16[500, 20000] = input 0 [20000, 1]
     %1: bf16[500, 20000] = softmax(%0) {dim: 1}
     return %1",
    "%0: u8[7, 100000] = input 0 [100000, 1]
     %1: u8[7] = max(%0) {dims: [1], keepdim: false}
     %2: u8[7] = min(%0) {dims: [1], keepdim: false}
     return %1 %2",
];
