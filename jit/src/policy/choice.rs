//! What a candidate does otherwise than the planner by itself: changes, and their text form, in which a choice is
//! remembered.

use super::Policy;
use ferrotrace_kernels::ValueId;
use std::fmt;
use std::str::FromStr;

/// One decision made otherwise. Nodes are those of the simplified graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nodes of different parts are not one kernel. Parts are not empty.
    Apart(Vec<Vec<ValueId>>),
    /// A value that would be computed wherever it is used is stored.
    Stored(ValueId),
    /// A value that would be stored only because it is costly or used often is computed wherever it is used.
    Again(ValueId),
    /// Another threshold.
    Threshold(Threshold),
}

/// One of the [`Thresholds`](super::Thresholds) that is a guess, and another value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Every kernel is launched alone.
    Alone,
    /// Operands of larger products, too, are computed panel by panel.
    LargeProducts,
    /// Reductions into more rows, too, are split into chunks.
    SplitMore,
    /// No reduction is split.
    SplitNone,
}

const THRESHOLDS: [(&str, Threshold); 4] = [
    ("alone", Threshold::Alone),
    ("large-products", Threshold::LargeProducts),
    ("split-more", Threshold::SplitMore),
    ("split-none", Threshold::SplitNone),
];

/// Changes that a plan is made with; none for what the planner does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    changes: Vec<Change>,
}

impl Change {
    /// Whether it undoes what would be one kernel: it is made where that is no slower (scheduler Q-04). Others are made
    /// where they are faster.
    pub fn undoes_fusion(&self) -> bool {
        matches!(self, Change::Apart(_))
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> Vec<ValueId> {
        match self {
            Change::Apart(parts) => parts.concat(),
            Change::Stored(node) | Change::Again(node) => vec![*node],
            Change::Threshold(_) => Vec::new(),
        }
    }
}

impl Choice {
    /// These changes, together.
    pub fn of(changes: Vec<Change>) -> Choice {
        Choice { changes }
    }

    /// The changes.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The policy by which a plan is made with these changes.
    pub fn applied(&self, policy: &Policy) -> Policy {
        let mut policy = Policy {
            choice: self.clone(),
            ..policy.clone()
        };
        let thresholds = &mut policy.thresholds;
        for change in &self.changes {
            match change {
                Change::Threshold(Threshold::Alone) => thresholds.combined_members = 1,
                Change::Threshold(Threshold::LargeProducts) => {
                    thresholds.prologue_short = usize::MAX;
                }
                Change::Threshold(Threshold::SplitMore) => thresholds.split_rows *= 8,
                Change::Threshold(Threshold::SplitNone) => thresholds.split_rows = 0,
                Change::Apart(_) | Change::Stored(_) | Change::Again(_) => {}
            }
        }
        policy
    }

    /// Whether a kernel may not hold nodes of which both `a` and `b` say that they are theirs.
    pub(crate) fn keeps_apart(
        &self,
        a: impl Fn(ValueId) -> bool,
        b: impl Fn(ValueId) -> bool,
    ) -> bool {
        self.changes.iter().any(|change| {
            let Change::Apart(parts) = change else {
                return false;
            };
            let holds = |of: &dyn Fn(ValueId) -> bool| -> Vec<bool> {
                parts.iter().map(|p| p.iter().any(|v| of(*v))).collect()
            };
            let (a, b) = (holds(&a), holds(&b));
            (0..a.len()).any(|i| a[i] && (0..b.len()).any(|j| j != i && b[j]))
        })
    }

    /// Whether a value is to be stored.
    pub(crate) fn stores(&self, node: ValueId) -> bool {
        self.changes.contains(&Change::Stored(node))
    }

    /// Whether a value is not to be stored for its cost alone.
    pub(crate) fn computes_again(&self, node: ValueId) -> bool {
        self.changes.contains(&Change::Again(node))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Apart(parts) => {
                f.write_str("apart")?;
                for (i, part) in parts.iter().enumerate() {
                    f.write_str(if i > 0 { " |" } else { "" })?;
                    part.iter().try_for_each(|v| write!(f, " %{}", v.0))?;
                }
                Ok(())
            }
            Change::Stored(node) => write!(f, "stored %{}", node.0),
            Change::Again(node) => write!(f, "again %{}", node.0),
            Change::Threshold(which) => {
                let named = THRESHOLDS.iter().find(|(_, t)| t == which);
                f.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Changes with a semicolon between them.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, change) in self.changes.iter().enumerate() {
            write!(f, "{}{change}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// A text that is no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChange;

impl FromStr for Change {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Change, NoChange> {
        let text = text.trim();
        if let Some((_, which)) = THRESHOLDS.iter().find(|(name, _)| *name == text) {
            return Ok(Change::Threshold(*which));
        }
        let node = |word: &str| -> Result<ValueId, NoChange> {
            let number = word.strip_prefix('%').ok_or(NoChange)?;
            number.parse().map(ValueId).map_err(|_| NoChange)
        };
        let (kind, rest) = text.split_once(' ').ok_or(NoChange)?;
        match kind {
            "stored" => node(rest).map(Change::Stored),
            "again" => node(rest).map(Change::Again),
            "apart" => {
                let part = |text: &str| -> Result<Vec<ValueId>, NoChange> {
                    let nodes: Result<Vec<_>, _> = text.split_whitespace().map(node).collect();
                    nodes.and_then(|n| if n.is_empty() { Err(NoChange) } else { Ok(n) })
                };
                let parts: Result<Vec<_>, _> = rest.split('|').map(part).collect();
                parts.map(Change::Apart)
            }
            _ => Err(NoChange),
        }
    }
}

impl FromStr for Choice {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Choice, NoChange> {
        if text.trim().is_empty() {
            return Ok(Choice::default());
        }
        let changes: Result<Vec<Change>, _> = text.split(';').map(str::parse).collect();
        changes.map(Choice::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: &[u32]) -> Vec<ValueId> {
        numbers.iter().copied().map(ValueId).collect()
    }

    #[test]
    fn choices_are_read_as_they_are_written() {
        let mut all = vec![
            Change::Apart(vec![nodes(&[1, 2]), nodes(&[3]), nodes(&[40])]),
            Change::Stored(ValueId(7)),
            Change::Again(ValueId(0)),
        ];
        all.extend(THRESHOLDS.iter().map(|(_, t)| Change::Threshold(*t)));
        for choice in [Choice::default(), Choice::of(all)] {
            let text = choice.to_string();
            assert_eq!(text.parse(), Ok(choice), "{text}");
        }
        for text in [
            "apart",
            "apart %1 |",
            "stored",
            "stored 3",
            "again %x",
            "fast",
            "alone; ",
        ] {
            assert_eq!(text.parse::<Choice>(), Err(NoChange), "{text}");
        }
    }

    #[test]
    fn parts_are_kept_apart() {
        let choice = Choice::of(vec![Change::Apart(vec![nodes(&[1, 2]), nodes(&[3])])]);
        let apart =
            |a: &[u32], b: &[u32]| choice.keeps_apart(|v| a.contains(&v.0), |v| b.contains(&v.0));
        assert!(apart(&[1], &[3]) && apart(&[3, 9], &[8, 2]));
        assert!(!apart(&[1], &[2]) && !apart(&[1, 2], &[9]) && !apart(&[3], &[]));
    }
}
