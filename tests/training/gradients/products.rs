use super::differences::{check, read, second, smooth, tensor};
use ferrotrace::prelude::*;

#[test]
fn linear() {
    for rows in [&[3][..], &[2, 3], &[2, 2, 3], &[0, 3]] {
        let operands = [tensor(rows, 1), tensor(&[4, 3], 2), tensor(&[4], 3)];
        check(&operands, |t| t[0].linear(&t[1], Some(&t[2])));
        check(&operands[..2], |t| t[0].linear(&t[1], None));
    }
    // One output without a dimension.
    check(&[tensor(&[5, 3], 1), tensor(&[3], 2)], |t| {
        t[0].linear(&t[1], None)
    });
    let pair = [tensor(&[2, 3], 1), tensor(&[2, 3], 2)];
    second(&pair, |t| t[0].linear(&t[1], None).square());
}

#[test]
fn einsum() {
    let cases: [(&str, &[&[usize]]); 16] = [
        ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("ij,jk->ki", &[&[2, 3], &[3, 4]]),
        ("bij,bjk->bik", &[&[2, 2, 3], &[2, 3, 4]]),
        ("bij,bkj->ikb", &[&[2, 3, 4], &[2, 2, 4]]),
        ("i,i->", &[&[4], &[4]]),
        ("i,j->ji", &[&[2], &[3]]),
        ("ij,ij->i", &[&[2, 3], &[2, 3]]),
        ("ij->", &[&[2, 3]]),
        ("ii->i", &[&[3, 3]]),
        ("ii->", &[&[3, 3]]),
        ("iji->j", &[&[3, 2, 3]]),
        ("ii,ij->j", &[&[3, 3], &[3, 2]]),
        // A label of one operand alone is summed.
        ("ij,k->i", &[&[2, 3], &[4]]),
        ("ij,jk,kl->il", &[&[2, 3], &[3, 2], &[2, 4]]),
        ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[2, 3, 2]]),
        // Sizes of 1 broadcast.
        ("ij,jk->ik", &[&[2, 1], &[3, 4]]),
    ];
    for (equation, shapes) in cases {
        let operands: Vec<Tensor> = shapes
            .iter()
            .enumerate()
            .map(|(i, dims)| tensor(dims, i as u64 + 1))
            .collect();
        check(&operands, |t| {
            Tensor::einsum(equation, &t.iter().collect::<Vec<_>>())
        });
    }
    let pair = [tensor(&[2, 3], 1), tensor(&[3, 2], 2)];
    second(&pair, |t| {
        Tensor::einsum("ij,jk->ik", &[&t[0], &t[1]]).square()
    });
}

/// Shapes of query, key, value; a mask's.
type Case = (&'static [usize], &'static [usize], &'static [usize]);

const HEADS: [Case; 4] = [
    (&[3, 4], &[5, 4], &[5, 2]),
    (&[2, 2, 3, 4], &[2, 2, 5, 4], &[2, 2, 5, 3]),
    // Two heads of queries for each of keys.
    (&[2, 2, 3, 4], &[2, 1, 3, 4], &[2, 1, 3, 4]),
    (&[1, 4], &[3, 1, 4], &[3, 1, 4]),
];

#[test]
fn attention() {
    for (q, k, v) in HEADS {
        let operands = [tensor(q, 1), tensor(k, 2), tensor(v, 3)];
        let attend = |t: &[Tensor], mask: Option<&Tensor>, causal, scale| {
            Tensor::scaled_dot_product_attention(&t[0], &t[1], &t[2], mask, causal, scale)
        };
        check(&operands, |t| attend(t, None, false, None));
        check(&operands, |t| attend(t, None, true, None));
        smooth(&operands, &|t| attend(t, None, false, Some(0.3)));
        let (rows, keys) = (q[q.len() - 2], k[k.len() - 2]);
        // The first query sees nothing.
        let seen: Vec<bool> = (0..rows * keys).map(|i| i >= keys && i % 3 != 1).collect();
        let seen = Tensor::from_vec(seen, [rows, keys], &Device::cpu());
        smooth(&operands, &|t| attend(t, Some(&seen), false, None));
        let mut with_mask = operands.to_vec();
        with_mask.push(tensor(&[rows, keys], 4));
        check(&with_mask, |t| attend(t, Some(&t[3]), false, None));
    }
}

#[test]
fn gradients_of_attention() {
    let operands = [
        tensor(&[2, 3, 2], 1),
        tensor(&[2, 3, 2], 2),
        tensor(&[2, 3, 2], 3),
    ];
    for causal in [false, true] {
        second(&operands, |t| {
            Tensor::scaled_dot_product_attention(&t[0], &t[1], &t[2], None, causal, None).square()
        });
    }
}

#[test]
fn attention_without_elements() {
    for (q, k) in [([2, 0, 3], [2, 4, 3]), ([2, 4, 3], [2, 0, 3])] {
        for mode in [Mode::Eager, Mode::Compiled] {
            with_mode(mode, || {
                let of = |shape: &[usize]| tensor(shape, 1).requires_grad();
                let (q, k, v) = (of(&q), of(&k), of(&k));
                let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None);
                for (g, x) in grad(&y.sum(..), &[&q, &k, &v]).iter().zip([&q, &k, &v]) {
                    assert_eq!(read(g), vec![0.0; x.numel()], "{mode:?}");
                }
            });
        }
    }
}

// The gradient passes where the result did: the mask is drawn again by its counter.
#[test]
fn dropout() {
    for mode in [Mode::Eager, Mode::Compiled] {
        for dtype in [DType::F32, DType::BF16] {
            let (x, y, g) = with_mode(mode, || {
                let x = (tensor(&[64, 9], 1) + 4.0).to_dtype(dtype).requires_grad();
                let y = x.dropout(0.25);
                let g = grad(&(&y * 3.0).sum(..), &[&x]).remove(0);
                (read(&x), read(&y), read(&g))
            });
            let mut kept = 0;
            for i in 0..x.len() {
                let want = if y[i] == 0.0 { 0.0 } else { 4.0 };
                kept += usize::from(y[i] != 0.0);
                assert!((g[i] - want).abs() < 1e-2, "{mode:?} {dtype} {i}: {}", g[i]);
            }
            assert!((380..480).contains(&kept), "{kept}");
        }
    }
}
