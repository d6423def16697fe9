//! Positions that never meet.

use super::Expr;
use ferrotrace_runtime::Layout;
use smallvec::SmallVec;

/// Whether two positions in a dense buffer of this layout never meet, whatever the variables are in each: in some
/// dimension they keep to different ranges, or to different residues.
pub(crate) fn are_apart(a: &Expr, b: &Expr, layout: &Layout, extents: &[usize]) -> bool {
    let (of_a, of_b) = (a.range(extents), b.range(extents));
    if of_a.high < of_b.low || of_b.high < of_a.low {
        return true;
    }
    let (Some(a), Some(b)) = (
        by_dimension(a, layout, extents),
        by_dimension(b, layout, extents),
    ) else {
        return false;
    };
    a.iter().zip(&b).any(|(a, b)| {
        let (of_a, of_b) = (a.range(extents), b.range(extents));
        let steps = a.terms().iter().chain(b.terms()).map(|term| term.1);
        let common = steps.fold(0, gcd);
        let differ = a.constant() - b.constant();
        of_a.high < of_b.low
            || of_b.high < of_a.low
            || (common > 1 && differ.rem_euclid(common) != 0)
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    match b {
        0 => a.abs(),
        _ => gcd(b, a % b),
    }
}

/// An affine position as an index of each dimension of a dense layout, where its variables allow no carry.
fn by_dimension(at: &Expr, layout: &Layout, extents: &[usize]) -> Option<SmallVec<[Expr; 4]>> {
    if !at.is_affine() {
        return None;
    }
    let mut rest = at.clone();
    let mut all = SmallVec::new();
    for (&stride, &size) in layout.strides().iter().zip(layout.shape().iter()) {
        if size == 1 {
            all.push(Expr::default());
            continue;
        }
        let stride = stride as i64;
        if stride <= 0 {
            return None;
        }
        let mut here = Expr::default();
        for (term, by) in rest.terms().to_vec() {
            if by % stride == 0 && by.abs() < stride.saturating_mul(size as i64) {
                here = here.add(&Expr::from(term).scale(by / stride));
            }
        }
        rest = rest.sub(&here.scale(stride));
        let low = rest.range(extents).low.div_euclid(stride);
        here = here.offset(low);
        rest = rest.offset(-low * stride);
        let range = rest.range(extents);
        if range.low < 0 || range.high >= stride {
            return None;
        }
        all.push(here);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Shape;

    fn position(offset: i64, coefficients: &[i64]) -> Expr {
        let terms = coefficients.iter().enumerate();
        terms.fold(Expr::from(offset), |e, (v, &c)| {
            e.add(&Expr::var(v).scale(c))
        })
    }

    #[test]
    fn positions_apart_are_told_by_dimension() {
        let layout = Layout::contiguous(Shape::from(&[200, 100][..]));
        let apart = |a: Expr, b: Expr, extents: &[usize]| {
            assert_eq!(
                are_apart(&a, &b, &layout, extents),
                are_apart(&b, &a, &layout, extents)
            );
            are_apart(&a, &b, &layout, extents)
        };
        // Columns 10 to 19 of rows 5 and on, and column 9, 20, or one between.
        let part = || position(510, &[100, 1]);
        assert!(apart(part(), position(509, &[100, 0]), &[30, 10]));
        assert!(apart(part(), position(520, &[100, 0]), &[30, 10]));
        assert!(!apart(part(), position(519, &[100, 0]), &[30, 10]));
        // Rows 5 to 34, and row 4, or 5.
        assert!(apart(part(), position(410, &[0, 1]), &[30, 10]));
        assert!(!apart(part(), position(510, &[0, 1]), &[30, 10]));
        // A row that is written while it is walked the other way.
        assert!(!apart(position(510, &[1]), position(529, &[-1]), &[20]));
        // Columns that cross into the next row, if there were any.
        assert!(!apart(
            position(590, &[100, 1]),
            position(600, &[100, 0]),
            &[3, 20]
        ));
        // Even and odd rows, even and odd columns.
        assert!(apart(
            position(0, &[200, 1]),
            position(100, &[200, 1]),
            &[90, 90]
        ));
        assert!(apart(
            position(0, &[100, 2]),
            position(1, &[100, 2]),
            &[90, 40]
        ));
        assert!(!apart(
            position(0, &[100, 2]),
            position(1, &[100, 3]),
            &[90, 30]
        ));
    }

    #[test]
    fn positions_past_32_bits_are_compared() {
        let n = 1usize << 32;
        let layout = Layout::contiguous(Shape::from(&[4, n][..]));
        let row = |r: i64| position(r << 32, &[1]);
        assert!(are_apart(&row(1), &row(3), &layout, &[n]));
        assert!(!are_apart(&row(3), &row(3), &layout, &[n]));
        let half = |r: i64, from: i64| position((r << 32) + from, &[1 << 32, 1]);
        assert!(are_apart(
            &half(0, 0),
            &half(0, 1 << 31),
            &layout,
            &[4, n / 2]
        ));
        assert!(!are_apart(
            &half(0, 1),
            &half(0, 1 << 31),
            &layout,
            &[4, n / 2]
        ));
    }
}
