//! The order in which the steps of a plan run: several are estimated, and the one that needs least memory is kept
//! (scheduler B-15).

use super::peak::Footprints;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A way to order steps.
type Sort = fn(&Footprints, &Dependencies, usize) -> Vec<usize>;

/// The orders tried after the given one, in this order.
const SORTS: [(&str, Sort); 4] = [
    ("least peak first", least_peak_first),
    ("first in first out", first_in_first_out),
    ("small branches first", small_branches_first),
    ("costly branches first", costly_branches_first),
];

/// The order that needs least memory: the given one unless another is better whether inputs are donated or not.
/// Time n log n in the steps and the buffers they touch. `window` is [`Thresholds::ready`](crate::policy::Thresholds::ready).
pub(super) fn least_memory(footprints: &Footprints, window: usize) -> Vec<usize> {
    let given: Vec<usize> = (0..footprints.steps.len()).collect();
    let peaks = |order: &[usize]| {
        let peak = |donated: bool| footprints.peak(order.iter().copied(), &|_| donated);
        (peak(false), peak(true))
    };
    let mut best = (peaks(&given), given);
    if best.0.0 <= least_possible(footprints) {
        return best.1;
    }
    let dependencies = Dependencies::of(footprints);
    for (name, sort) in SORTS {
        let order = sort(footprints, &dependencies, window);
        debug_assert!(dependencies.allow(&order), "{name}");
        let peaks = peaks(&order);
        if peaks.0 <= best.0.0 && peaks.1 <= best.0.1 && peaks != best.0 {
            best = (peaks, order);
        }
    }
    best.1
}

/// Bytes that every order needs when nothing is donated: the outputs at the end, and the temporaries of each step.
fn least_possible(footprints: &Footprints) -> u64 {
    let made = |&b: &usize| footprints.input[b].is_none();
    let bytes = |b: usize| footprints.bytes[b];
    let all = 0..footprints.bytes.len();
    let outputs: u64 = all
        .filter(|b| made(b) && footprints.output[*b])
        .map(bytes)
        .sum();
    let of_step = footprints.steps.iter().map(|step| -> u64 {
        let over = |b: usize| step.in_place.iter().any(|pair| pair.0 == b);
        let all = step.touched().filter(|b| made(b) && !over(*b));
        all.map(bytes).sum::<u64>() + step.own()
    });
    outputs.max(of_step.max().unwrap_or(0))
}

/// Which step needs which.
struct Dependencies {
    /// For each step, those that write what it reads.
    before: Vec<Vec<usize>>,
    /// For each step, those that read what it writes.
    after: Vec<Vec<usize>>,
    /// For each buffer, the steps that touch it.
    users: Vec<Vec<usize>>,
}

impl Dependencies {
    fn of(footprints: &Footprints) -> Dependencies {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); footprints.bytes.len()];
        let mut after = vec![Vec::new(); footprints.steps.len()];
        for (i, step) in footprints.steps.iter().enumerate() {
            for buffer in step.touched() {
                users[buffer].push(i);
            }
            for &from in &step.needs {
                after[from].push(i);
            }
        }
        let needs = footprints.steps.iter().map(|step| step.needs.clone());
        let before = needs.collect();
        Dependencies {
            before,
            after,
            users,
        }
    }

    /// Whether every step comes once, after what it needs.
    fn allow(&self, order: &[usize]) -> bool {
        let mut done = vec![false; self.before.len()];
        let each = order.iter().all(|&step| {
            let ready = self.before[step].iter().all(|&from| done[from]);
            ready && !std::mem::replace(&mut done[step], true)
        });
        each && order.len() == done.len()
    }

    /// How many steps each still waits for.
    fn waiting(&self) -> Vec<usize> {
        self.before.iter().map(Vec::len).collect()
    }
}

/// Among the steps that could run: of those that fit under the peak so far the one that leaves least memory held,
/// else the one that raises the peak least (scheduler B-16). Only the `window` that leave least are compared.
fn least_peak_first(footprints: &Footprints, needs: &Dependencies, window: usize) -> Vec<usize> {
    let freed = |b: usize| !footprints.output[b] && footprints.input[b].is_none();
    let bytes = |b: usize| footprints.bytes[b] as i64;
    let mut left = footprints.uses();
    // The sum of the steps that still use each buffer: the step itself where one is left.
    let mut rest: Vec<usize> = needs.users.iter().map(|users| users.iter().sum()).collect();
    let mut held = vec![false; footprints.bytes.len()];
    // What each step would add to the memory held after it, kept true as others run.
    let mut growth: Vec<i64> = Vec::with_capacity(footprints.steps.len());
    for step in &footprints.steps {
        let written: i64 = step.writes.iter().map(|&b| bytes(b)).sum();
        let own = |b: &usize| left[*b] == 1 && freed(*b);
        growth.push(written - step.touched().filter(own).map(bytes).sum::<i64>());
    }
    let mut waiting = needs.waiting();
    let mut ready: BTreeSet<(i64, usize)> = (0..waiting.len())
        .filter(|&i| waiting[i] == 0)
        .map(|i| (growth[i], i))
        .collect();
    let (mut live, mut peak) = (0i64, 0i64);
    let mut order = Vec::with_capacity(waiting.len());
    loop {
        let needed = |i: usize| {
            let step = &footprints.steps[i];
            let fresh = |b: &&usize| {
                !held[**b]
                    && !step
                        .in_place
                        .iter()
                        .any(|p| p.0 == **b && left[p.1] == 1 && freed(p.1))
            };
            step.writes
                .iter()
                .filter(fresh)
                .map(|&b| bytes(b))
                .sum::<i64>()
                + step.own() as i64
        };
        let mut next: Option<(i64, i64, usize)> = None;
        for &(grows, i) in ready.iter().take(window.max(1)) {
            let candidate = ((live + needed(i)).max(peak), grows, i);
            if next.is_none_or(|best| candidate < best) {
                next = Some(candidate);
            }
            if candidate.0 == peak {
                break;
            }
        }
        let Some((highest, grows, i)) = next else {
            return order;
        };
        (live, peak) = (live + grows, highest);
        ready.remove(&(grows, i));
        order.push(i);
        let mut change = |ready: &mut BTreeSet<(i64, usize)>, step: usize, by: i64| {
            let old = (growth[step], step);
            growth[step] += by;
            if ready.remove(&old) {
                ready.insert((growth[step], step));
            }
        };
        for &b in &footprints.steps[i].writes {
            if !std::mem::replace(&mut held[b], true) {
                // Others that write parts of the same buffer find it there.
                for &user in needs.users[b].iter().filter(|&&user| user != i) {
                    if footprints.steps[user].writes.contains(&b) {
                        change(&mut ready, user, -bytes(b));
                    }
                }
            }
        }
        for b in footprints.steps[i].touched() {
            left[b] -= 1;
            rest[b] -= i;
            if left[b] == 1 && freed(b) {
                change(&mut ready, rest[b], -bytes(b));
            }
        }
        for &next in &needs.after[i] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.insert((growth[next], next));
            }
        }
    }
}

/// Steps whose operands were computed earliest first (scheduler B-17).
fn first_in_first_out(_: &Footprints, needs: &Dependencies, _: usize) -> Vec<usize> {
    let mut waiting = needs.waiting();
    let mut positions = vec![0; waiting.len()];
    let mut ready: BinaryHeap<Reverse<(Vec<usize>, usize)>> = (0..waiting.len())
        .filter(|&i| waiting[i] == 0)
        .map(|i| Reverse((Vec::new(), i)))
        .collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(Reverse((_, i))) = ready.pop() {
        positions[i] = order.len();
        order.push(i);
        for &next in &needs.after[i] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                let before = needs.before[next].iter();
                let mut key: Vec<usize> = before.map(|&from| positions[from]).collect();
                key.sort_unstable();
                ready.push(Reverse((key, next)));
            }
        }
    }
    order
}

/// Depth first, steps and what they need by the bytes they read and write, fewest first (scheduler B-18).
fn small_branches_first(footprints: &Footprints, needs: &Dependencies, _: usize) -> Vec<usize> {
    let of_step = |i: usize| -> u64 {
        let touched = footprints.steps[i].touched();
        touched.map(|b| footprints.bytes[b]).sum()
    };
    let size: Vec<u64> = (0..footprints.steps.len()).map(of_step).collect();
    let mut roots: Vec<usize> = (0..size.len()).collect();
    roots.sort_by_key(|&i| (size[i], i));
    let mut children = needs.before.clone();
    for list in &mut children {
        list.sort_by_key(|&i| (size[i], i));
    }
    depth_first(&roots, &children)
}

/// Depth first from the last steps on, what needs most beyond its result first: least memory where no result has two
/// users (Sethi and Ullman, The generation of optimal code for arithmetic expressions, 1970).
fn costly_branches_first(footprints: &Footprints, needs: &Dependencies, _: usize) -> Vec<usize> {
    let n = footprints.steps.len();
    let mut children = needs.before.clone();
    let (mut need, mut result) = (vec![0u64; n], vec![0u64; n]);
    for i in 0..n {
        let writes = footprints.steps[i].writes.iter();
        result[i] = writes.map(|&b| footprints.bytes[b]).sum();
        children[i].sort_by_key(|&from| (Reverse(need[from] - result[from]), from));
        let mut held = 0;
        for &from in &children[i] {
            need[i] = need[i].max(held + need[from]);
            held += result[from];
        }
        need[i] = need[i].max(held + result[i]);
    }
    let roots: Vec<usize> = (0..n).filter(|&i| needs.after[i].is_empty()).collect();
    depth_first(&roots, &children)
}

/// Every step after its children, in their order.
fn depth_first(roots: &[usize], children: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; children.len()];
    let mut order = Vec::with_capacity(children.len());
    let mut pending: Vec<(usize, usize)> = Vec::new();
    for &root in roots {
        if !std::mem::replace(&mut seen[root], true) {
            pending.push((root, 0));
        }
        while let Some((step, next)) = pending.last_mut() {
            match children[*step].get(*next) {
                Some(&child) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[child], true) {
                        pending.push((child, 0));
                    }
                }
                None => {
                    order.push(*step);
                    pending.pop();
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::peak::Footprint;
    use super::*;
    use crate::body::Source;

    /// Steps that each write one buffer of these bytes from those of earlier steps; the last one's is the output.
    fn graph(steps: &[(u64, &[usize])]) -> Footprints {
        let last = steps.len() - 1;
        Footprints {
            bytes: steps.iter().map(|step| step.0).collect(),
            sources: (0..steps.len() as u32).map(Source::Input).collect(),
            output: (0..steps.len()).map(|i| i == last).collect(),
            input: vec![None; steps.len()],
            steps: steps
                .iter()
                .enumerate()
                .map(|(i, step)| Footprint {
                    needs: step.1.to_vec(),
                    reads: step.1.to_vec(),
                    writes: vec![i],
                    ..Footprint::default()
                })
                .collect(),
        }
    }

    fn peak(footprints: &Footprints, order: &[usize]) -> u64 {
        footprints.peak(order.iter().copied(), &|_| false)
    }

    /// The least peak of all orders.
    fn least(footprints: &Footprints) -> u64 {
        fn search(all: &Footprints, needs: &Dependencies, order: &mut Vec<usize>, best: &mut u64) {
            if order.len() == all.steps.len() {
                *best = (*best).min(peak(all, order));
            }
            for i in 0..all.steps.len() {
                if !order.contains(&i) && needs.before[i].iter().all(|from| order.contains(from)) {
                    order.push(i);
                    search(all, needs, order, best);
                    order.pop();
                }
            }
        }
        let mut best = u64::MAX;
        let needs = Dependencies::of(footprints);
        search(footprints, &needs, &mut Vec::new(), &mut best);
        best
    }

    // scheduler B-15
    #[test]
    fn branches_run_one_after_another() {
        // Two wide values, each reduced to a narrow one, recorded side by side.
        let wide = graph(&[(100, &[]), (100, &[]), (1, &[0]), (1, &[1]), (1, &[2, 3])]);
        assert_eq!(peak(&wide, &[0, 1, 2, 3, 4]), 201);
        let order = least_memory(&wide, 64);
        assert_eq!(order, [0, 2, 1, 3, 4]);
        assert_eq!(peak(&wide, &order), 102);
    }

    #[test]
    fn an_order_that_is_no_worse_stays() {
        let chain = graph(&[(8, &[]), (8, &[0]), (8, &[1]), (8, &[2])]);
        assert_eq!(least_memory(&chain, 64), [0, 1, 2, 3]);
        let even = graph(&[(8, &[]), (8, &[]), (8, &[1]), (8, &[0]), (8, &[2, 3])]);
        assert_eq!(least_memory(&even, 64), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn memory_that_is_written_over_counts_once() {
        let mut over = graph(&[(100, &[]), (100, &[0]), (100, &[1])]);
        assert_eq!(peak(&over, &[0, 1, 2]), 200);
        over.steps[1].in_place = vec![(1, 0)];
        over.steps[2].in_place = vec![(2, 1)];
        assert_eq!(peak(&over, &[0, 1, 2]), 100);
        // Not what another step still reads.
        over.steps[2].reads.push(0);
        assert_eq!(peak(&over, &[0, 1, 2]), 200);
    }

    #[test]
    fn donated_inputs_are_given_back() {
        let mut all = graph(&[(60, &[]), (50, &[0]), (50, &[1])]);
        all.input[0] = Some(0);
        all.steps.remove(0);
        let order = || [0usize, 1].into_iter();
        assert_eq!(all.peak(order(), &|_| false), 100);
        assert_eq!(all.peak(order(), &|_| true), 50);
    }

    #[test]
    fn random_graphs_come_near_the_least() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let (mut sum, mut given, mut best) = (0.0, 0.0, 0.0);
        for _ in 0..300 {
            let n = 4 + random(5) as usize;
            let mut steps: Vec<(u64, Vec<usize>)> = Vec::new();
            for i in 0..n {
                let mut reads: Vec<usize> = (0..i).filter(|_| random(100) < 30).collect();
                if i + 1 == n {
                    // Everything is used.
                    let unused = |j: &usize| steps.iter().all(|step| !step.1.contains(j));
                    reads = (0..i).filter(unused).collect();
                }
                steps.push((1 + random(20) * random(20), reads));
            }
            let steps: Vec<(u64, &[usize])> = steps.iter().map(|s| (s.0, &s.1[..])).collect();
            let footprints = graph(&steps);
            let order = least_memory(&footprints, 64);
            assert!(Dependencies::of(&footprints).allow(&order));
            let first: Vec<usize> = (0..n).collect();
            let (found, least) = (peak(&footprints, &order), least(&footprints));
            assert!(found >= least && found <= peak(&footprints, &first));
            given += peak(&footprints, &first) as f64 / least as f64;
            sum += found as f64 / least as f64;
            best += f64::from(u8::from(found == least));
        }
        let (given, found) = (given / 300.0, sum / 300.0);
        assert!(
            found < 1.01 && best >= 270.0 && given > 1.05,
            "{given} {found} {best}"
        );
    }
}
