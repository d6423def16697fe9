//! A kernel that reads one element too many, or with the argument `overflow` converts a number that does not fit:
//! what the sanitizers of `.ci/sanitize` must notice. Without them it prints what it read.

use ferrotrace_runtime::{
    Binding, Buffer, Device, Grid, KernelSource, Launch, Result, compile_kernels, launch,
};

fn main() -> Result<()> {
    let body = if std::env::args().any(|a| a == "overflow") {
        "((int *)a->ptr[0])[0] = (int)(1e30f * ((float *)a->ptr[0])[1]);"
    } else {
        "((int *)a->ptr[0])[0] = ((int *)a->ptr[0])[a->param[0]];"
    };
    let signature = "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local)";
    let source = KernelSource {
        parts: Vec::new(),
        body: format!("{signature} {{ {body} }}").into(),
        finish: false,
        name: "".into(),
    };
    let kernel = compile_kernels(&[source]).remove(0)?;
    let buffer = Buffer::allocate(&Device::cpu(), 12)?;
    launch(&Launch {
        kernel: &kernel,
        buffers: &[Binding {
            buffer: &buffer,
            offset: 0,
            span: 12,
        }],
        params: &[3],
        scalars: &[],
        chunks: 1,
        scratch: 0,
        local: 0,
        grid: Grid::default(),
    })?;
    println!("{:?}", buffer.as_slice::<i32>());
    Ok(())
}
