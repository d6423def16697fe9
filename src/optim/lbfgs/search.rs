//! The length of a step along a direction.

use crate::{Result, Tensor};

/// A step is long enough where the loss falls by this part of what the first slope promises.
const FALLS: f64 = 1e-4;

/// A step is far enough where the slope is at most this part of the first.
const FLATTENS: f64 = 0.9;

/// What is known at a place along a direction.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// How many times the direction it lies away.
    pub size: f64,
    pub loss: f64,
    /// The derivative of the loss by the size.
    pub slope: f64,
    pub gradient: Tensor,
}

impl Point {
    /// Where a direction begins, with no slope yet.
    pub(super) fn new(loss: f64, gradient: Tensor) -> Point {
        Point {
            size: 0.0,
            loss,
            slope: 0.0,
            gradient,
        }
    }
}

/// What bounds a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The greatest element of the direction.
    pub longest: f64,
    /// Brackets in which no element changes by more are not divided.
    pub change: f64,
    /// The most places behind the first.
    pub places: usize,
}

/// The least point of the cubic through two points with these slopes, within limits; the middle where it has none.
fn cubic(a: &Point, b: &Point, limits: Option<[f64; 2]>) -> f64 {
    let [least, most] = limits.unwrap_or([a.size.min(b.size), a.size.max(b.size)]);
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.size - b.size);
    let square = d1 * d1 - a.slope * b.slope;
    if square >= 0.0 {
        let d2 = square.sqrt();
        let (low, high) = if a.size <= b.size { (a, b) } else { (b, a) };
        let part = (high.slope + d2 - d1) / (high.slope - low.slope + 2.0 * d2);
        let found = high.size - (high.size - low.size) * part;
        found.max(least).min(most)
    } else {
        (least + most) / 2.0
    }
}

/// The index of the lower one of two points, and of the other.
fn ordered(pair: &[Point; 2]) -> (usize, usize) {
    match pair[0].loss <= pair[1].loss {
        true => (0, 1),
        false => (1, 0),
    }
}

/// What the first phase of a search found.
enum Found {
    /// A point of the strong Wolfe conditions.
    End(Point),
    /// Two points between which there is one.
    Bracket([Point; 2]),
}

/// Longer and longer steps, until one satisfies the conditions or went too far; and how many behind the first.
fn bracket(
    start: &Point,
    size: f64,
    bounds: Bounds,
    at: &mut impl FnMut(f64) -> Result<Point>,
) -> Result<(Found, usize)> {
    let (mut before, mut now) = (start.clone(), at(size)?);
    for turn in 0..bounds.places {
        let too_high = now.loss > start.loss + FALLS * now.size * start.slope;
        if too_high || (turn > 1 && now.loss >= before.loss) {
            return Ok((Found::Bracket([before, now]), turn));
        }
        if now.slope.abs() <= -FLATTENS * start.slope {
            return Ok((Found::End(now), turn));
        }
        if now.slope >= 0.0 {
            return Ok((Found::Bracket([before, now]), turn));
        }
        let least = now.size + 0.01 * (now.size - before.size);
        let size = cubic(&before, &now, Some([least, now.size * 10.0]));
        before = std::mem::replace(&mut now, at(size)?);
    }
    Ok((Found::Bracket([start.clone(), now]), bounds.places))
}

/// A point that satisfies the strong Wolfe conditions, or the best of those that were tried; and how many were. Follows
/// Nocedal & Wright, *Numerical Optimization*, algorithms 3.5 and 3.6, as PyTorch writes them.
pub(super) fn strong_wolfe(
    start: &Point,
    size: f64,
    bounds: Bounds,
    mut at: impl FnMut(f64) -> Result<Point>,
) -> Result<(Point, usize)> {
    let (found, mut turn) = bracket(start, size, bounds, &mut at)?;
    let mut pair = match found {
        Found::End(point) => return Ok((point, turn + 1)),
        Found::Bracket(pair) => pair,
    };
    let (mut low, mut high) = ordered(&pair);
    let mut was_near = false;
    while turn < bounds.places {
        let least = pair[0].size.min(pair[1].size);
        let most = pair[0].size.max(pair[1].size);
        if (most - least) * bounds.longest < bounds.change {
            break;
        }
        let mut size = cubic(&pair[0], &pair[1], None);
        // A place near an end of the bracket, for the second time, or at it, is moved inwards.
        let margin = 0.1 * (most - least);
        let is_near = (most - size).min(size - least) < margin;
        let moves = is_near && (was_near || size >= most || size <= least);
        if moves {
            size = match (size - most).abs() < (size - least).abs() {
                true => most - margin,
                false => least + margin,
            };
        }
        was_near = is_near && !moves;
        let now = at(size)?;
        turn += 1;
        let too_high = now.loss > start.loss + FALLS * size * start.slope;
        if too_high || now.loss >= pair[low].loss {
            pair[high] = now;
            (low, high) = ordered(&pair);
            continue;
        }
        let is_end = now.slope.abs() <= -FLATTENS * start.slope;
        if !is_end && now.slope * (pair[high].size - pair[low].size) >= 0.0 {
            pair[high] = pair[low].clone();
        }
        pair[low] = now;
        if is_end {
            break;
        }
    }
    let [first, second] = pair;
    Ok((if low == 0 { first } else { second }, turn + 1))
}
