//! Einstein sums, contracted pair by pair from the left.
//!
//! A label is a letter, or a dimension of the ellipsis (numbered from 0, right-aligned among the operands). Sizes of a
//! label must be equal or 1 (which is broadcast), and equal within one operand (whose diagonal is taken).

use super::build::{permute, promoted, reshape, value};
use super::{Definition, defined};
use crate::op::operator::{Operator, facts, text};
use crate::op::{Diagonal, Squeeze, Unsqueeze};
use crate::{Class, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Error, Result};
use smallvec::SmallVec;

/// An Einstein sum; explicit or implicit output, repeated labels, ellipsis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Einsum {
    /// The equation, without blanks.
    pub equation: Box<str>,
}

impl Operator for Einsum {
    text!("einsum" { equation });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for Einsum {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        einsum(b, args, &self.equation)
    }
}

/// A letter's ASCII code, or the number of an ellipsis dimension, below the codes of letters.
type Label = u8;
type Labels = SmallVec<[Label; 8]>;

const ELLIPSIS: Label = u8::MAX;
const FIRST_LETTER: Label = b'A';

/// A tensor with a label for each dimension.
#[derive(Clone, Debug)]
struct Term {
    value: ValueId,
    labels: Labels,
}

/// How messages call a label.
fn called(label: Label) -> String {
    if label < FIRST_LETTER {
        format!("{label} of the ellipsis")
    } else {
        format!("'{}'", label as char)
    }
}

/// The labels of one operand or of the result, the ellipsis as [`ELLIPSIS`].
fn parse(text: &str) -> Result<Labels> {
    let mut labels = Labels::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if labels.contains(&ELLIPSIS) {
                return Err(Error::argument(format!("two ellipses in '{text}'")));
            }
            labels.push(ELLIPSIS);
            rest = after;
        } else if c.is_ascii_alphabetic() {
            labels.push(c as u8);
            rest = &rest[1..];
        } else {
            return Err(Error::argument(format!(
                "'{c}' is no label of an einsum equation"
            )));
        }
        rest = rest.trim_start();
    }
    Ok(labels)
}

/// `labels` with the ellipsis spelt out as the last `count` of `most` dimensions.
fn spelt_out(labels: &[Label], count: usize, most: usize) -> Labels {
    let mut all = Labels::new();
    for &label in labels {
        if label == ELLIPSIS {
            all.extend((most - count..most).map(|i| i as Label));
        } else {
            all.push(label);
        }
    }
    all
}

/// The labels of the operands (of these ranks) and of the result.
fn labelled(equation: &str, ranks: &[usize]) -> Result<(Vec<Labels>, Labels)> {
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(parse(output)?)),
        None => (equation, None),
    };
    let inputs = inputs.split(',').map(parse).collect::<Result<Vec<_>>>()?;
    if inputs.len() != ranks.len() {
        let (n, m) = (inputs.len(), ranks.len());
        return Err(Error::argument(format!(
            "einsum '{equation}' names {n} operands and gets {m}"
        )));
    }
    let mut counts = SmallVec::<[usize; 4]>::new();
    for (i, (labels, &rank)) in inputs.iter().zip(ranks).enumerate() {
        let ellipsis = usize::from(labels.contains(&ELLIPSIS));
        let letters = labels.len() - ellipsis;
        if letters > rank || (ellipsis == 0 && letters < rank) {
            return Err(Error::shape(format!(
                "einsum '{equation}' has {letters} labels for operand {i} of rank {rank}"
            )));
        }
        counts.push(rank - letters);
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    if most >= FIRST_LETTER as usize {
        return Err(Error::unsupported(format!(
            "an ellipsis of {most} dimensions"
        )));
    }
    let terms: Vec<Labels> = inputs
        .iter()
        .zip(&counts)
        .map(|(l, &n)| spelt_out(l, n, most))
        .collect();
    let output = match output {
        Some(labels) => spelt_out(&labels, most, most),
        None => {
            // The ellipsis, then what stands once, in order.
            let times = |label: Label| inputs.iter().flatten().filter(|l| **l == label).count();
            let mut once: Labels = (FIRST_LETTER..=b'z').filter(|&l| times(l) == 1).collect();
            once.insert_from_slice(0, &spelt_out(&[ELLIPSIS], most, most));
            once
        }
    };
    for (i, &label) in output.iter().enumerate() {
        if output[..i].contains(&label) {
            return Err(Error::argument(format!(
                "label {} stands twice in the result",
                called(label)
            )));
        }
        if !terms.iter().any(|t| t.contains(&label)) {
            return Err(Error::argument(format!(
                "label {} of the result is in no operand",
                called(label)
            )));
        }
    }
    Ok((terms, output))
}

/// The size of each label, by the label.
fn sizes(b: &dyn OpBuilder, terms: &[Term]) -> Result<[usize; 128]> {
    let mut sizes = [1; 128];
    for term in terms {
        for (&label, &size) in term.labels.iter().zip(b.shape(term.value).iter()) {
            let known = &mut sizes[label as usize];
            if *known == 1 {
                *known = size;
            } else if size != 1 && size != *known {
                return Err(Error::shape(format!(
                    "label {} is of sizes {known} and {size}",
                    called(label)
                )));
            }
        }
    }
    Ok(sizes)
}

impl Term {
    fn size(&self, b: &dyn OpBuilder, label: Label) -> Option<usize> {
        self.at(label).map(|d| b.shape(self.value)[d])
    }

    fn at(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|l| *l == label)
    }

    /// With the diagonal taken of labels that stand twice.
    fn diagonal(mut self, b: &mut dyn OpBuilder) -> Result<Term> {
        let repeated = |labels: &Labels| {
            let pairs = (0..labels.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
            pairs.into_iter().find(|&(i, j)| labels[i] == labels[j])
        };
        while let Some((i, j)) = repeated(&self.labels) {
            let (label, shape) = (self.labels[i], b.shape(self.value));
            if shape[i] != shape[j] {
                let (n, m) = (shape[i], shape[j]);
                return Err(Error::shape(format!(
                    "label {} is of sizes {n} and {m}",
                    called(label)
                )));
            }
            self.value = b.push(
                Op::Diagonal(Diagonal {
                    offset: 0,
                    a: i,
                    b: j,
                }),
                &[self.value.into()],
            )?;
            self.labels.remove(j);
            self.labels.remove(i);
            self.labels.push(label);
        }
        Ok(self)
    }

    /// Without the dimensions of size 1 that are broadcast: leaving a label out is the same.
    fn squeezed(mut self, b: &mut dyn OpBuilder, sizes: &[usize; 128]) -> Result<Term> {
        let shape = b.shape(self.value);
        let broadcast = |d: &usize| shape[*d] == 1 && sizes[self.labels[*d] as usize] != 1;
        let mask = (0..shape.rank())
            .filter(broadcast)
            .fold(0, |mask, d| mask | 1u64 << d);
        if mask != 0 {
            self.value = b.push(Op::Squeeze(Squeeze { mask }), &[self.value.into()])?;
            let mut d = 0;
            self.labels.retain(|_| {
                d += 1;
                mask >> (d - 1) & 1 == 0
            });
        }
        Ok(self)
    }

    /// Summed over the labels that `kept` refuses; sums of integers are of `I64`, as those of `sum`.
    fn summed(mut self, b: &mut dyn OpBuilder, kept: impl Fn(Label) -> bool) -> Result<Term> {
        let mask = (0..self.labels.len())
            .filter(|&d| !kept(self.labels[d]))
            .fold(0, |m, d| m | 1u64 << d);
        if mask != 0 {
            self.value = b.reduce(ReduceKind::Sum, self.value, mask, false)?;
            self.labels.retain(|l| kept(*l));
        }
        Ok(self)
    }

    /// The tensor with its dimensions in the order of `labels`, those it lacks of size 1 (or left out in front).
    fn aligned(&self, b: &mut dyn OpBuilder, labels: &[Label]) -> Result<ValueId> {
        let order: SmallVec<[usize; 8]> = labels.iter().filter_map(|&l| self.at(l)).collect();
        let mut value = permute(b, self.value, &order)?;
        let first = labels
            .iter()
            .position(|&l| self.at(l).is_some())
            .unwrap_or(labels.len());
        for (d, _) in labels[first..]
            .iter()
            .enumerate()
            .filter(|(_, l)| self.at(**l).is_none())
        {
            value = b.push(Op::Unsqueeze(Unsqueeze { dim: d }), &[value.into()])?;
        }
        Ok(value)
    }

    /// The product with another term, summed over the labels that `needed` refuses.
    fn times(
        self,
        b: &mut dyn OpBuilder,
        other: Term,
        needed: impl Fn(Label) -> bool,
    ) -> Result<Term> {
        let left = self.summed(b, |l| needed(l) || other.at(l).is_some())?;
        let right = other.summed(b, |l| needed(l) || left.at(l).is_some())?;
        let pick = |term: &Term, f: &dyn Fn(Label) -> bool| {
            term.labels.iter().copied().filter(|l| f(*l)).collect()
        };
        let batch: Labels = pick(&left, &|l| right.at(l).is_some() && needed(l));
        let contracted: Labels = pick(&left, &|l| right.at(l).is_some() && !needed(l));
        let rows: Labels = pick(&left, &|l| right.at(l).is_none());
        let columns: Labels = pick(&right, &|l| left.at(l).is_none());
        if contracted.is_empty() {
            let labels: Labels = left.labels.iter().chain(&columns).copied().collect();
            let (x, y) = (left.aligned(b, &labels)?, right.aligned(b, &labels)?);
            return Ok(Term {
                value: b.mul(x, y)?,
                labels,
            });
        }
        if rows.is_empty() && columns.is_empty() {
            return inner(b, &left, &right, &needed);
        }
        let size = |b: &dyn OpBuilder, l: Label| left.size(b, l).or(right.size(b, l)).unwrap_or(1);
        let merged = |b: &dyn OpBuilder, labels: &[Label]| {
            labels.iter().map(|&l| size(b, l)).product::<usize>()
        };
        let join = |parts: [&Labels; 3]| parts.into_iter().flatten().copied().collect::<Labels>();
        let stack: SmallVec<[usize; 8]> = batch.iter().map(|&l| size(b, l)).collect();
        let (m, n, k) = (
            merged(b, &rows),
            merged(b, &columns),
            merged(b, &contracted),
        );
        let matrices = |tail: &[usize]| {
            stack
                .iter()
                .chain(tail)
                .copied()
                .collect::<SmallVec<[usize; 8]>>()
        };
        let dtype = promoted(b, &[left.value.into(), right.value.into()]);
        let x = left.aligned(b, &join([&batch, &rows, &contracted]))?;
        let x = b.cast(x, dtype)?;
        let x = reshape(b, x, &matrices(&[m, k]))?;
        let y = right.aligned(b, &join([&batch, &contracted, &columns]))?;
        let y = b.cast(y, dtype)?;
        let y = reshape(b, y, &matrices(&[k, n]))?;
        let product = b.push(Op::Matmul, &[x.into(), y.into()])?;
        let labels = join([&batch, &rows, &columns]);
        let dims: SmallVec<[usize; 8]> = labels.iter().map(|&l| size(b, l)).collect();
        Ok(Term {
            value: reshape(b, product, &dims)?,
            labels,
        })
    }
}

/// The product of terms that share all their labels: no matrix has two dimensions of its own, so it is a product and a
/// sum in one pass.
fn inner(
    b: &mut dyn OpBuilder,
    left: &Term,
    right: &Term,
    needed: &dyn Fn(Label) -> bool,
) -> Result<Term> {
    let dtype = promoted(b, &[left.value.into(), right.value.into()]);
    let x = b.cast(left.value, dtype.compute())?;
    let y = right.aligned(b, &left.labels)?;
    let y = b.cast(y, dtype.compute())?;
    let product = Term {
        value: b.mul(x, y)?,
        labels: left.labels.clone(),
    };
    let mut sum = product.summed(b, needed)?;
    sum.value = b.cast(sum.value, dtype)?;
    Ok(sum)
}

/// The sum of products that the equation asks for. Without `->` the result has the ellipsis and then, in order of
/// letters, every label that stands once. Its dtype is the one the operands promote to, as that of a matrix product; where
/// a label of one operand alone is summed, it is the sum's, `I64` of integers.
///
/// # Errors
/// The equation is malformed or does not fit the operands' number, ranks or sizes.
pub(super) fn einsum(b: &mut dyn OpBuilder, args: &[Operand], equation: &str) -> Result<ValueId> {
    let values = (0..args.len())
        .map(|i| value(args, i))
        .collect::<Result<SmallVec<[ValueId; 4]>>>()?;
    let ranks: SmallVec<[usize; 4]> = values.iter().map(|&v| b.shape(v).rank()).collect();
    let (labels, output) = labelled(equation, &ranks)?;
    let dtype: DType = promoted(b, args);
    let mut terms = Vec::with_capacity(values.len());
    for (&value, labels) in values.iter().zip(labels) {
        let value = b.cast(value, dtype)?;
        terms.push(Term { value, labels }.diagonal(b)?);
    }
    let sizes = sizes(b, &terms)?;
    let mut rest = terms
        .into_iter()
        .map(|t| t.squeezed(b, &sizes))
        .collect::<Result<Vec<_>>>()?;
    rest.reverse();
    let mut result = rest
        .pop()
        .ok_or_else(|| Error::argument("an einsum of no operands"))?;
    while let Some(next) = rest.pop() {
        result = result.times(b, next, |l| {
            output.contains(&l) || rest.iter().any(|t| t.at(l).is_some())
        })?;
    }
    let result = result.summed(b, |l| output.contains(&l))?;
    result.aligned(b, &output)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::Einsum;
    use crate::Arg;
    use crate::Composite;
    use ferrotrace_runtime::DType::{self, *};
    use std::collections::BTreeMap;

    fn op(equation: &str) -> Composite {
        Composite::Einsum(Einsum {
            equation: equation.into(),
        })
    }

    /// The sum by one loop over all labels; `equation` names every dimension by a letter. Returns shape and elements.
    fn naive(equation: &str, operands: &[(&[usize], &[f64])]) -> (Vec<usize>, Vec<f64>) {
        let (inputs, output) = equation.split_once("->").expect("explicit");
        let inputs: Vec<Vec<char>> = inputs.split(',').map(|s| s.chars().collect()).collect();
        let output: Vec<char> = output.chars().collect();
        let mut sizes = BTreeMap::new();
        for (labels, (dims, _)) in inputs.iter().zip(operands) {
            assert_eq!(labels.len(), dims.len());
            for (label, &size) in labels.iter().zip(*dims) {
                let known = sizes.entry(*label).or_insert(1);
                *known = if *known == 1 { size } else { *known };
            }
        }
        let labels: Vec<char> = sizes.keys().copied().collect();
        let to: Vec<usize> = output.iter().map(|l| sizes[l]).collect();
        let mut out = vec![0.0; to.iter().product()];
        for mut position in 0..sizes.values().product() {
            let mut index = BTreeMap::new();
            for label in &labels {
                index.insert(*label, position % sizes[label]);
                position /= sizes[label];
            }
            let flat = |labels: &[char], dims: &[usize]| {
                labels
                    .iter()
                    .zip(dims)
                    .fold(0, |at, (l, &n)| at * n + if n == 1 { 0 } else { index[l] })
            };
            let product: f64 = inputs
                .iter()
                .zip(operands)
                .map(|(l, (dims, values))| values[flat(l, dims)])
                .product();
            out[flat(&output, &to)] += product;
        }
        (to, out)
    }

    /// `equation` as written; the same with every dimension named; the operands' shapes.
    const CASES: [(&str, &str, &[&[usize]]); 32] = [
        ("ij,jk->ik", "ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("ij,jk", "ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("ij,jk->ki", "ij,jk->ki", &[&[2, 3], &[3, 4]]),
        ("ba,ac", "ba,ac->bc", &[&[2, 3], &[3, 4]]),
        ("ca,ab", "ca,ab->bc", &[&[2, 3], &[3, 4]]),
        ("bij,bjk->bik", "bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 5]]),
        ("bij,bkj->ikb", "bij,bkj->ikb", &[&[2, 3, 4], &[2, 5, 4]]),
        ("i,i->", "i,i->", &[&[5], &[5]]),
        ("i,j->ij", "i,j->ij", &[&[2], &[3]]),
        ("i,j->ji", "i,j->ji", &[&[2], &[3]]),
        ("ij,ij->ij", "ij,ij->ij", &[&[2, 3], &[2, 3]]),
        ("ij,ij->i", "ij,ij->i", &[&[2, 3], &[2, 3]]),
        ("ij,j->i", "ij,j->i", &[&[2, 3], &[3]]),
        ("j,ij->i", "j,ij->i", &[&[3], &[2, 3]]),
        ("bi,bij->bj", "bi,bij->bj", &[&[2, 3], &[2, 3, 4]]),
        ("ij->ji", "ij->ji", &[&[2, 3]]),
        ("ij->", "ij->", &[&[2, 3]]),
        ("ii->", "ii->", &[&[3, 3]]),
        ("ii->i", "ii->i", &[&[3, 3]]),
        ("iji->j", "iji->j", &[&[3, 2, 3]]),
        ("iii->i", "iii->i", &[&[3, 3, 3]]),
        ("ii,ij->j", "ii,ij->j", &[&[3, 3], &[3, 2]]),
        ("ijk,jlk->il", "ijk,jlk->il", &[&[2, 3, 4], &[3, 5, 4]]),
        ("ijkl,mk->ijlm", "ijkl,mk->ijlm", &[&[2, 3, 4, 2], &[3, 4]]),
        ("ij,k->i", "ij,k->i", &[&[2, 3], &[4]]),
        ("ij,jk,kl->il", "ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]),
        ("i,j,k->kji", "i,j,k->kji", &[&[2], &[3], &[4]]),
        (
            "...ij,...jk->...ik",
            "abij,bjk->abik",
            &[&[2, 3, 2, 4], &[3, 4, 2]],
        ),
        ("...ij->...ji", "abij->abji", &[&[2, 3, 2, 4]]),
        ("i...,i...", "iab,iab->ab", &[&[2, 3, 4], &[2, 3, 4]]),
        ("b...,b->...", "bxy,b->xy", &[&[2, 3, 4], &[2]]),
        ("ij,jk->ik", "ij,jk->ik", &[&[2, 1], &[3, 4]]),
    ];

    #[test]
    fn as_the_naive_loop() {
        for dtype in FLOATS {
            for (equation, named, shapes) in CASES {
                let values: Vec<Vec<f64>> = shapes
                    .iter()
                    .enumerate()
                    .map(|(i, dims)| sample(dims.iter().product(), i as u64))
                    .collect();
                let operands: Vec<_> = shapes
                    .iter()
                    .copied()
                    .zip(values.iter().map(|v| &v[..]))
                    .collect();
                let args: Vec<Arg> = operands.iter().map(|(dims, v)| t(dims, dtype, v)).collect();
                let (to, want) = naive(named, &operands);
                // An intermediate product of three is rounded too.
                let exact = dtype == F64 || dtype == F32;
                if exact || shapes.len() < 3 {
                    check(op(equation), &args, &to, dtype, &want);
                }
            }
        }
    }

    #[test]
    fn broadcasts_and_sizes() {
        let row = sample(3, 35);
        let ones = [1.0; 6];
        let args = [t(&[1, 3], F32, &row), t(&[2, 3], F32, &ones)];
        let sum: f64 = row.iter().sum();
        check(
            op("ij,ij->ij"),
            &args,
            &[2, 3],
            F32,
            &[row.clone(), row.clone()].concat(),
        );
        check(op("ij,ij->i"), &args, &[2], F32, &[sum, sum]);
        let lead = [
            t(&[1, 2, 2], F32, &[1.0, 2.0, 3.0, 4.0]),
            t(&[3, 2], F32, &ones),
        ];
        check(
            op("...ij,...j->...i"),
            &lead,
            &[3, 2],
            F32,
            &[3.0, 7.0, 3.0, 7.0, 3.0, 7.0],
        );
        // The ellipsis may match no dimension, and is summed where the result leaves it out.
        check(
            op("...i->i"),
            &[t(&[2, 3], F32, &ones)],
            &[3],
            F32,
            &[2.0; 3],
        );
        check(op("...i->...i"), &[t(&[3], F32, &row)], &[3], F32, &row);
        check(op("->"), &[t(&[], F32, &[2.0])], &[], F32, &[2.0]);
        check(
            op(",i->i"),
            &[t(&[], F32, &[2.0]), t(&[2], F32, &[1.0, 3.0])],
            &[2],
            F32,
            &[2.0, 6.0],
        );
        check(
            op("ij,jk->ik"),
            &[t(&[2, 0], F32, &[]), t(&[0, 2], F32, &[])],
            &[2, 2],
            F32,
            &[0.0; 4],
        );
        check(
            op("ij,jk->ik"),
            &[t(&[0, 2], F32, &[]), t(&[2, 2], F32, &ones[..4])],
            &[0, 2],
            F32,
            &[],
        );
        check(op("ij->"), &[t(&[0, 2], F32, &[])], &[], F32, &[0.0]);
        let squares = [t(&[1, 1], F32, &[2.0]), t(&[1, 1], F32, &[3.0])];
        check(op("ij,jk->ik"), &squares, &[1, 1], F32, &[6.0]);
        check(op(" i j , j k -> i k "), &squares, &[1, 1], F32, &[6.0]);
    }

    #[test]
    fn dtypes() {
        let pair = |a: DType, b: DType| [t(&[2], a, &[1.0, 2.0]), t(&[2], b, &[3.0, 4.0])];
        check(op("i,i->"), &pair(I32, I32), &[], I32, &[11.0]);
        check(op("i,i->"), &pair(I32, F16), &[], F16, &[11.0]);
        check(
            op("i,j->ij"),
            &pair(F32, F64),
            &[2, 2],
            F64,
            &[3.0, 4.0, 6.0, 8.0],
        );
        let bytes = t(&[2, 2], U8, &[200.0, 100.0, 150.0, 50.0]);
        check(op("ij->"), std::slice::from_ref(&bytes), &[], I64, &[500.0]);
        check(
            op("ij->j"),
            std::slice::from_ref(&bytes),
            &[2],
            I64,
            &[350.0, 150.0],
        );
        check(op("ii->"), std::slice::from_ref(&bytes), &[], I64, &[250.0]);
        check(
            op("ij,kj->"),
            &[bytes.clone(), bytes.clone()],
            &[],
            I64,
            &[145_000.0],
        );
        let row = t(&[3], U8, &[1.0, 2.0, 3.0]);
        check(
            op("ij,k->i"),
            &[bytes.clone(), row],
            &[2],
            I64,
            &[1800.0, 1200.0],
        );
        check(op("i->"), &[t(&[2], Bool, &[1.0, 1.0])], &[], I64, &[2.0]);
        // Products keep the dtype, as those of matrices do.
        let twice = [bytes.clone(), bytes];
        check(
            op("ij,jk->ik"),
            &twice,
            &[2, 2],
            U8,
            &[216.0, 168.0, 124.0, 92.0],
        );
        check(
            op("ij->ji"),
            &[t(&[1, 2], Bool, &[1.0, 0.0])],
            &[2, 1],
            Bool,
            &[1.0, 0.0],
        );
        // Products in F32: 300² is no binary16 number, the difference of two of them is.
        let big = [
            t(&[2], F16, &[300.0, -300.0]),
            t(&[2], F16, &[300.0, 299.0]),
        ];
        check(op("i,i->"), &big, &[], F16, &[300.0]);
    }

    #[test]
    fn what_does_not_fit() {
        let z = |dims: &[usize]| t(dims, F32, &vec![0.0; dims.iter().product()]);
        let message = |equation: &str, shapes: &[&[usize]]| {
            refused(
                &op(equation),
                &shapes.iter().map(|s| z(s)).collect::<Vec<_>>(),
            )
        };
        assert!(message("ij,jk->ik", &[&[2, 3], &[4, 5]]).contains("'j'"));
        assert!(message("ii->i", &[&[2, 3]]).contains("'i'"));
        assert!(message("ii->i", &[&[1, 3]]).contains("'i'"));
        assert!(message("ij->ik", &[&[2, 3]]).contains("'k'"));
        assert!(message("ij->ii", &[&[2, 3]]).contains("'i'"));
        assert!(message("ijk->i", &[&[2, 3]]).contains("rank 2"));
        assert!(message("i->i", &[&[2, 3]]).contains("rank 2"));
        assert!(message("ij...k->i", &[&[2, 3]]).contains("rank 2"));
        assert!(message("ij,jk->ik", &[&[2, 3]]).contains("2 operands"));
        assert!(message("i1->i", &[&[2, 3]]).contains("'1'"));
        assert!(message("é->", &[&[2]]).contains("'é'"));
        assert!(message("i.->i", &[&[2]]).contains("'.'"));
        assert!(message("......->", &[&[2]]).contains("ellipses"));
        assert!(message("i->j->k", &[&[2]]).contains("'-'"));
        assert!(message("...i,...i->...", &[&[2, 3], &[4, 3]]).contains("ellipsis"));
        message("", &[]);
    }
}
