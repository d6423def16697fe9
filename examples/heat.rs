//! Heat in a plate: a stencil over time steps, each step one call of a compiled function. Writes PNG frames.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::path::Path;

const SIZE: usize = 256;
const STEPS: usize = 2000;
const FRAMES: usize = 4;

/// One explicit step of the heat equation; the edge is held at its values. Stable for `rate` up to 1/4.
fn step(plate: &Tensor, rate: f64) -> Tensor {
    let inner =
        |row: isize, column: isize| plate.narrow(0, row, SIZE - 2).narrow(1, column, SIZE - 2);
    let change = inner(0, 1) + inner(2, 1) + inner(1, 0) + inner(1, 2) - inner(1, 1) * 4.0;
    plate + (change * rate).pad(&[(1, 1), (1, 1)], 0.0)
}

/// A cold plate with a hot upper edge and a hot disc.
fn start(device: &Device) -> Tensor {
    let along = Tensor::arange(0, SIZE, 1, DType::F32, device);
    let (row, column) = (along.reshape([SIZE, 1]), along.reshape([1, SIZE]));
    let middle = SIZE as f64 / 2.0;
    let distance = ((&row - middle).square() + (&column - middle).square()).sqrt();
    let hot = distance.lt(SIZE as f64 / 8.0).logical_or(row.eq(0.0));
    hot.to_dtype(DType::F32)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join("ferrotrace-examples");
    std::fs::create_dir_all(&folder)?;
    let step = jit(|(plate, rate): (&Tensor, f64)| step(plate, rate));
    let mut plate = start(&Device::best());
    plate.eval()?;
    for frame in 0..FRAMES {
        let (warmth, stats) = stats_scope(|| {
            for _ in 0..STEPS / FRAMES {
                plate = step.call((&plate, 0.2));
            }
            plate.mean(..).to_scalar::<f32>()
        });
        let path = folder.join(format!("heat-{frame}.png"));
        write_png(
            &path,
            &(&plate * 255.0)
                .clamp(0.0, 255.0)
                .to_dtype(DType::U8)
                .to_vec::<u8>()?,
        )?;
        println!(
            "mean {:.4}, {} kernels run, {} compiled, {} buffers reused: {}",
            warmth?,
            stats.kernels_launched,
            stats.kernels_compiled,
            stats.buffers_reused,
            path.display()
        );
    }
    Ok(())
}

/// Writes grey values, row by row from the top.
fn write_png(path: &Path, grey: &[u8]) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, SIZE as u32, SIZE as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(grey)?;
    Ok(())
}
