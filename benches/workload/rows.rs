//! Reductions, normalisations, scans and sorts of rows.

use super::{Workload, of_many, of_one, randint, randn};
use ferrotrace::Tensor;

pub(super) fn open(name: &str) -> Option<Workload> {
    let small = || randn([256, 1024], 0, 1.0);
    let big = || randn([4096, 4096], 0, 1.0);
    Some(match name {
        "softmax_256x1024" => of_one(small(), |x| x.softmax(-1)),
        "softmax_4096" => of_one(big(), |x| x.softmax(-1)),
        "layernorm_256x1024" => layer_norm(256),
        "layernorm_4096x1024" => layer_norm(4096),
        "rmsnorm_res_4096x1024" => {
            let (x, residual) = (randn([4096, 1024], 0, 1.0), randn([4096, 1024], 1, 1.0));
            of_many(
                [x, residual, randn(1024, 2, 1.0)],
                |[x, residual, weight]| {
                    let sum = x + residual;
                    vec![sum.rms_norm(1, Some(weight), 1e-5), sum]
                },
            )
        }
        "sum_all_256x1024" => of_one(small(), |x| x.sum(..)),
        "sum_all" => of_one(big(), |x| x.sum(..)),
        "sum_ax0" => of_one(big(), |x| x.sum(0)),
        "sum_ax1" => of_one(big(), |x| x.sum(1)),
        "meanvar_ax1" => of_many([big()], |[x]| x.var_mean(1, 1).into_vec()),
        "meanvar_all" => of_many([big()], |[x]| x.var_mean(.., 1).into_vec()),
        "cumsum_4096" => of_one(big(), |x| x.cumsum(-1)),
        "sort_1024x4096" => of_one(randn([1024, 4096], 0, 1.0), |x| x.sort(-1, false).0),
        "embsum" => {
            let (table, rows) = (randn([50_000, 256], 0, 1.0), randint([4096, 32], 5, 50_000));
            of_many([table, rows], |[table, rows]| {
                vec![table.embedding(rows).sum(1)]
            })
        }
        _ => return None,
    })
}

fn layer_norm(rows: usize) -> Workload {
    let inputs = [
        randn([rows, 1024], 0, 1.0),
        randn(1024, 1, 1.0),
        randn(1024, 2, 1.0),
    ];
    of_many(inputs, |[x, weight, bias]| {
        vec![x.layer_norm(1, Some(weight), Some(bias), 1e-5)]
    })
}

trait IntoVec {
    fn into_vec(self) -> Vec<Tensor>;
}

impl IntoVec for (Tensor, Tensor) {
    fn into_vec(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}
