//! The last column of the front page's table "Coming from PyTorch, candle, ndarray" is what stands here, compiled and run.

use ferrotrace::prelude::*;
use ferrotrace::value_and_grad;

/// Whether what a cell gives is as it should be: no tensor carries an error.
trait Checked {
    fn checked(&self) -> Result<()>;
}

impl Checked for Tensor {
    fn checked(&self) -> Result<()> {
        self.eval()
    }
}

impl<A: Checked, B: Checked> Checked for (A, B) {
    fn checked(&self) -> Result<()> {
        self.0.checked()?;
        self.1.checked()
    }
}

/// What cannot carry an error.
macro_rules! plain {
    ($($t:ty),*) => { $(impl Checked for $t {
        fn checked(&self) -> Result<()> {
            Ok(())
        }
    })* };
}

plain!(f32, Vec<f32>, Device, Option<Error>);

impl Checked for ndarray::ArrayD<f32> {
    fn checked(&self) -> Result<()> {
        Ok(())
    }
}

/// Cells of the table, as text and as what they give.
macro_rules! cells {
    ($($cell:expr;)*) => { vec![$(cell(stringify!($cell), || $cell.checked())),*] };
}

fn cell(text: &'static str, run: impl FnOnce() -> Result<()>) -> (&'static str, Result<()>) {
    (text, run())
}

fn cells() -> Vec<(&'static str, Result<()>)> {
    let device = Device::cpu();
    let data = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let x = Tensor::from_slice(&data, (2, 3), &device);
    let y = Tensor::ones((2, 3), DType::F32, &device);
    let row = Tensor::ones(3, DType::F32, &device);
    let rows = Tensor::from_slice(&[1i64, 0, 1], 3, &device);
    let columns = Tensor::from_slice(&[2i64, 0], (2, 1), &device);
    cells! {
        Tensor::zeros((2, 3), DType::F32, &device);
        Tensor::from_slice(&data, (2, 3), &device);
        Tensor::randn((2, 3), DType::F32, &device);
        Tensor::arange(0, 6, 1, DType::I64, &device);
        Device::cuda(0)?;
        x.to_dtype(DType::BF16);
        x.at((1, 2)).item::<f32>()?;
        x.at((.., 1..));
        x.at((.., (..).by(2)));
        x.assign((.., 0), 0.0);
        x.index_select(0, &rows);
        x.gather(1, &columns);
        x.gt(0.0).where_cond(&x, &y);
        &x * 2.0 + 1.0;
        &x + &row;
        x.exp();
        x.sum(-1);
        x.mean_keepdim(-1);
        x.softmax(-1);
        x.matmul(&y.t());
        Tensor::einsum("ij,kj->ik", &[&x, &y]);
        x.reshape((3, -1));
        x.unsqueeze(0);
        Tensor::cat(&[&x, &y], 0);
        x.sort(-1, false);
        x.to_vec::<f32>()?;
        value_and_grad(&x, |x| x.sum(..)).1;
        x.to_ndarray::<f32>()?;
        jit(|x: &Tensor| x.exp()).call(&x);
        with_mode(Mode::Eager, || x.exp());
        x.error();
    }
}

/// The code of the table's last column, without spaces; a cell holds one expression.
fn column() -> Vec<String> {
    let page = include_str!("../../README.md");
    let section = page
        .split("### Coming from PyTorch, candle, ndarray")
        .nth(1)
        .expect("the section");
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    rows.map(|row| {
        let row = row.trim_end().trim_end_matches('|').replace("\\|", "¦");
        let cell = row.rsplit('|').next().expect("a last cell").trim();
        without_spaces(&cell.trim_matches('`').replace('¦', "|"))
    })
    .collect()
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_front_page_shows_what_compiles_and_runs() {
    let cells = cells();
    let texts: Vec<String> = cells.iter().map(|(text, _)| without_spaces(text)).collect();
    assert_eq!(column(), texts);
    for (text, outcome) in cells {
        // The one cell that a machine may lack something for.
        let is_device = text.contains("cuda");
        assert!(outcome.is_ok() || is_device, "{text}: {outcome:?}");
    }
}

#[test]
fn the_gradient_of_a_sum_is_one_everywhere() {
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &Device::cpu());
    let gradient = value_and_grad(&x, |x| x.sum(..)).1;
    assert_eq!(gradient.to_vec::<f32>().expect("a gradient"), [1.0; 3]);
}
