//! Background compilation of [`Mode::Tiered`](crate::Mode::Tiered).

use crate::backend::Graph;
use crate::plans::PlanEntry;
use ferrotrace_runtime::Config;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

struct Queue {
    jobs: VecDeque<(Arc<PlanEntry>, Arc<Graph>)>,
    /// Entries that workers compile now.
    running: Vec<Arc<PlanEntry>>,
    workers: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    jobs: VecDeque::new(),
    running: Vec::new(),
    workers: 0,
});

/// Compiles the plan of `entry` on a thread of its own, on at most cores − 1 of them; nothing waits for it at exit.
pub(crate) fn compile_later(entry: &Arc<PlanEntry>, graph: &Arc<Graph>) {
    let mut queue = QUEUE.lock();
    let queued = queue.jobs.iter().map(|(job, _)| job).chain(&queue.running);
    if queued.into_iter().any(|job| Arc::ptr_eq(job, entry)) {
        return;
    }
    queue.jobs.push_back((entry.clone(), graph.clone()));
    let most = Config::get().threads.saturating_sub(1).max(1);
    if queue.workers >= most {
        return;
    }
    queue.workers += 1;
    drop(queue);
    let spawned = std::thread::Builder::new()
        .name("ferrotrace-tiered".into())
        .spawn(work);
    if spawned.is_err() {
        // Without a thread the plan is compiled when it is needed in another mode.
        QUEUE.lock().workers -= 1;
    }
}

fn work() {
    loop {
        let (entry, graph) = {
            let mut queue = QUEUE.lock();
            let Some(job) = queue.jobs.pop_front() else {
                queue.workers -= 1;
                return;
            };
            queue.running.push(job.0.clone());
            job
        };
        // An error comes up again where the form is compiled in the foreground.
        let compiled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            entry.make_plan(None, || Ok(Graph::clone(&graph))).map(drop)
        }));
        drop(compiled);
        QUEUE.lock().running.retain(|job| !Arc::ptr_eq(job, &entry));
    }
}
