//! ResNet-50 ([He et al. 2015](https://arxiv.org/abs/1512.03385), the step in the 3x3) and MobileNetV3-Large ([Howard et al.
//! 2019](https://arxiv.org/abs/1905.02244)).

use super::{Weights, Workload, images, of_one};
use ferrotrace::prelude::*;

/// A convolution without bias, and the batch norm behind it.
struct Layer {
    weight: Tensor,
    /// Mean, variance, weight and bias.
    norm: [Tensor; 4],
    stride: usize,
    groups: usize,
}

impl Layer {
    /// `gain` is about the weight of the norm.
    fn new(
        w: &Weights,
        [cin, cout, k]: [usize; 3],
        stride: usize,
        groups: usize,
        gain: f64,
    ) -> Self {
        let terms = cin / groups * k * k;
        let weight = w.normal(&[cout, cin / groups, k, k], (2.0 / terms as f64).sqrt());
        let [mean, variance, scale, bias] = [0.1; 4].map(|deviation| w.normal(&[cout], deviation));
        Layer {
            weight,
            norm: [mean, variance.abs() + 1.0, scale + gain, bias],
            stride,
            groups,
        }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let [mean, variance, scale, bias] = &self.norm;
        let padding = self.weight.dims()[2] / 2;
        x.conv2d(&self.weight, None, self.stride, padding, 1, self.groups)
            .batch_norm(mean, variance, Some(scale), Some(bias), 1e-5)
    }
}

/// The layers of a bottleneck, and of the way around it where sizes change.
struct Bottleneck([Layer; 3], Option<Layer>);

pub(super) fn resnet50(batch: usize) -> Workload {
    let w = Weights::new();
    let first = Layer::new(&w, [3, 64, 7], 2, 1, 1.0);
    let mut blocks = Vec::new();
    let mut cin = 64;
    for (stage, count) in [3, 4, 6, 3].into_iter().enumerate() {
        let width = 64 << stage;
        for i in 0..count {
            let stride = if i == 0 && stage > 0 { 2 } else { 1 };
            let layers = [
                Layer::new(&w, [cin, width, 1], 1, 1, 1.0),
                Layer::new(&w, [width, width, 3], stride, 1, 1.0),
                Layer::new(&w, [width, 4 * width, 1], 1, 1, 0.3),
            ];
            let around = (i == 0).then(|| Layer::new(&w, [cin, 4 * width, 1], stride, 1, 0.5));
            blocks.push(Bottleneck(layers, around));
            cin = 4 * width;
        }
    }
    let (head, bias) = (w.scaled(&[1000, cin], cin), w.normal(&[1000], 0.1));
    of_one(images(batch), move |x| {
        let x = first.apply(x).relu().max_pool2d(3, 2, 1);
        let x = blocks.iter().fold(x, |x, Bottleneck([a, b, c], around)| {
            let y = c.apply(&b.apply(&a.apply(&x).relu()).relu());
            (y + around.as_ref().map_or(x.clone(), |layer| layer.apply(&x))).relu()
        });
        x.mean([2, 3]).linear(&head, Some(&bias))
    })
}

/// The blocks of MobileNetV3-Large: window, expanded channels, channels, whether it squeezes, whether its activation is
/// hard-swish, step.
const BLOCKS: [(usize, usize, usize, bool, bool, usize); 15] = [
    (3, 16, 16, false, false, 1),
    (3, 64, 24, false, false, 2),
    (3, 72, 24, false, false, 1),
    (5, 72, 40, true, false, 2),
    (5, 120, 40, true, false, 1),
    (5, 120, 40, true, false, 1),
    (3, 240, 80, false, true, 2),
    (3, 200, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 480, 112, true, true, 1),
    (3, 672, 112, true, true, 1),
    (5, 672, 160, true, true, 2),
    (5, 960, 160, true, true, 1),
    (5, 960, 160, true, true, 1),
];

/// A block: what expands, the depthwise convolution, the weights and biases of what squeezes, and what contracts.
struct Inverted {
    expand: Option<Layer>,
    depthwise: Layer,
    squeeze: Option<[Tensor; 4]>,
    contract: Layer,
    swish: bool,
    residual: bool,
}

impl Inverted {
    fn apply(&self, x: &Tensor) -> Tensor {
        let active = |y: Tensor| if self.swish { y.hardswish() } else { y.relu() };
        let expanded = self.expand.as_ref().map(|layer| active(layer.apply(x)));
        let mut y = active(self.depthwise.apply(expanded.as_ref().unwrap_or(x)));
        if let Some([down, a, up, b]) = &self.squeeze {
            let mean = y.mean_keepdim([2, 3]);
            let hidden = mean.conv2d(down, Some(a), 1, 0, 1, 1).relu();
            y = &y * hidden.conv2d(up, Some(b), 1, 0, 1, 1).hardsigmoid();
        }
        let y = self.contract.apply(&y);
        if self.residual { y + x } else { y }
    }
}

/// A multiple of eight near `n`, as the network's channels are.
fn near(n: usize) -> usize {
    let rounded = (n + 4) / 8 * 8;
    if rounded * 10 < n * 9 {
        rounded + 8
    } else {
        rounded
    }
}

pub(super) fn mobilenet(batch: usize) -> Workload {
    let w = Weights::new();
    let first = Layer::new(&w, [3, 16, 3], 2, 1, 1.0);
    let mut cin = 16;
    let blocks = BLOCKS.map(|(k, wide, cout, squeezes, swish, stride)| {
        let expand = (wide != cin).then(|| Layer::new(&w, [cin, wide, 1], 1, 1, 1.0));
        let depthwise = Layer::new(&w, [wide, wide, k], stride, wide, 1.0);
        let squeeze = squeezes.then(|| {
            let n = near(wide / 4);
            let down = w.scaled(&[n, wide, 1, 1], wide);
            let a = w.normal(&[n], 0.1);
            [
                down,
                a,
                w.scaled(&[wide, n, 1, 1], n),
                w.normal(&[wide], 0.1),
            ]
        });
        let contract = Layer::new(&w, [wide, cout, 1], 1, 1, 0.5);
        let residual = stride == 1 && cin == cout;
        cin = cout;
        Inverted {
            expand,
            depthwise,
            squeeze,
            contract,
            swish,
            residual,
        }
    });
    let last = Layer::new(&w, [cin, 960, 1], 1, 1, 1.0);
    let (hidden, a) = (w.scaled(&[1280, 960], 960), w.normal(&[1280], 0.1));
    let (head, b) = (w.scaled(&[1000, 1280], 1280), w.normal(&[1000], 0.1));
    of_one(images(batch), move |x| {
        let x = first.apply(x).hardswish();
        let x = blocks.iter().fold(x, |x, block| block.apply(&x));
        let x = last.apply(&x).hardswish().mean([2, 3]);
        x.linear(&hidden, Some(&a))
            .hardswish()
            .linear(&head, Some(&b))
    })
}
