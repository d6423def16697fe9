//! What loop variables can be where a value counts.

use crate::expr::{Expr, Range, Ranges, Term, Var};

/// Bounds of each loop variable.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    extents: Vec<usize>,
    bounds: Vec<Range>,
}

impl Domain {
    /// Variables that run over `0..extents[v]`.
    pub fn new(extents: Vec<usize>) -> Domain {
        let bound = |v: usize| extents.as_slice().var(Var(v as u32));
        let bounds = (0..extents.len()).map(bound).collect();
        Domain { extents, bounds }
    }

    /// All that variables run over, but what conditions `e >= 0` of one variable leave out. Conditions that exclude each other
    /// say nothing.
    pub fn under(&self, conditions: &[Expr]) -> Domain {
        let mut all = Domain::new(self.extents.clone());
        for condition in conditions {
            let &[(Term::Var(Var(v)), factor)] = condition.terms() else {
                continue;
            };
            let Some(bound) = all.bounds.get_mut(v as usize) else {
                continue;
            };
            // factor·v + constant >= 0.
            let limit = -condition.constant();
            let (low, high) = match factor > 0 {
                true => (
                    limit.div_euclid(factor) + i64::from(limit.rem_euclid(factor) != 0),
                    bound.high,
                ),
                false => (bound.low, (-limit).div_euclid(-factor)),
            };
            let (low, high) = (low.max(bound.low), high.min(bound.high));
            if low <= high {
                *bound = Range::new(low, high);
            }
        }
        all
    }
}

impl Ranges for Domain {
    fn var(&self, Var(v): Var) -> Range {
        self.bounds.get(v as usize).copied().unwrap_or(Range::ANY)
    }

    fn value(&self, value: u32) -> Range {
        self.extents.as_slice().value(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_bound_variables() {
        let domain = Domain::new(vec![10, 20]);
        let (i, j) = (Expr::var(0), Expr::var(1));
        // 3·i - 7 >= 0, 15 - 2·j >= 0, and one that no i fulfils.
        let conditions = [i.scale(3).offset(-7), j.scale(-2).offset(15), i.offset(-30)];
        let under = domain.under(&conditions);
        assert_eq!((under.var(Var(0)).low, under.var(Var(0)).high), (3, 9));
        assert_eq!((under.var(Var(1)).low, under.var(Var(1)).high), (0, 7));
        assert_eq!(i.floor_div(10, &under), Expr::default());
        assert_eq!(j.modulo(8, &under), j);
        assert_ne!(j.modulo(8, &domain), j);
        // From another mask, nothing is left of this one.
        assert_eq!(under.under(&[]).var(Var(0)).low, 0);
    }
}
