//! The Mandelbrot set as tensor arithmetic: 64 steps of a loop in Rust become few kernels. Writes a PNG picture.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::path::{Path, PathBuf};

const WIDTH: usize = 768;
const HEIGHT: usize = 512;
const STEPS: usize = 64;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    let x = Tensor::linspace(-2.2, 0.8, WIDTH, DType::F32, &device).reshape([1, WIDTH]);
    let y = Tensor::linspace(-1.0, 1.0, HEIGHT, DType::F32, &device).reshape([HEIGHT, 1]);

    let (picture, stats) = stats_scope(|| {
        let (mut re, mut im) = (&x + &y * 0.0, &x * 0.0 + &y);
        let mut steps_inside = re.zeros_like();
        for _ in 0..STEPS {
            let (re2, im2) = (re.square(), im.square());
            steps_inside += (&re2 + &im2).le(4.0).to_dtype(DType::F32);
            // Points that escaped are held at a bound, so that none becomes infinite or NaN.
            (re, im) = (
                (re2 - im2 + &x).clamp(-4.0, 4.0),
                ((re * im) * 2.0 + &y).clamp(-4.0, 4.0),
            );
        }
        let brightness = (steps_inside / STEPS as f64).sqrt() * 255.0;
        brightness.to_dtype(DType::U8).to_vec::<u8>()
    });
    let path = picture_path("mandelbrot.png")?;
    write_png(&path, &picture?)?;
    println!(
        "{} operations recorded, {} kernels run; the picture is {}",
        stats.ops_recorded,
        stats.kernels_launched,
        path.display()
    );
    Ok(())
}

/// A file in a folder of the temporary directory.
fn picture_path(name: &str) -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join("ferrotrace-examples");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

/// Writes grey values, row by row from the top.
fn write_png(path: &Path, grey: &[u8]) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(grey)?;
    Ok(())
}
