//! Transposed convolutions with steps of one, as plain ones: of a weight whose taps are in reverse order, with its channels exchanged,
//! by inputs with as many zeros around them as taps reach farther than what is cropped.

use super::conv::{Axis, Done, Geometry};
use super::shifted;
use crate::cpu::dense::{Shared, ranges};

/// The plain convolution that a transposed one is, where one computes it.
pub fn plain(g: &Geometry) -> Option<Geometry> {
    let mut plain = *g;
    for axis in &mut plain.axes {
        let reach = (axis.kernel - 1) * axis.dilation;
        let padding = reach.checked_sub(axis.padding)?;
        let exchanged = Axis {
            input: axis.output,
            output: axis.input,
            padding,
            ..*axis
        };
        if axis.stride != 1 || exchanged.output + reach != exchanged.input + 2 * padding {
            return None;
        }
        *axis = exchanged;
    }
    shifted::suits(&plain).then_some(plain)
}

/// The transposed convolution. `done` runs over what is complete, in the pieces of the plain one.
pub fn convolve(plain: &Geometry, x: &[f32], w: &[f32], out: &mut [f32], done: Option<&Done<'_>>) {
    let turned = turned(plain, w);
    shifted::convolve(plain, x, turned[..].into(), out, done);
}

/// The weight of the plain convolution.
fn turned(g: &Geometry, w: &[f32]) -> Vec<f32> {
    let (cin, cout, taps) = (g.cin, g.cout, g.taps());
    let mut turned = vec![0.0; g.groups * cout * cin * taps];
    let all = Shared::new(&mut turned);
    ranges(g.groups * cout, cin * taps, |range| {
        for channel in range {
            let (group, o) = (channel / cout, channel % cout);
            // SAFETY: channels have no element in common.
            let to = unsafe { all.part(channel * cin * taps..(channel + 1) * cin * taps) };
            for (i, to) in to.chunks_exact_mut(taps).enumerate() {
                let from = &w[((group * cin + i) * cout + o) * taps..][..taps];
                to.iter_mut()
                    .zip(from.iter().rev())
                    .for_each(|(to, of)| *to = *of);
            }
        }
    });
    turned
}
