//! Epochs of batches.

use super::Dataset;
use super::shuffle::order;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, sync_channel};
use std::thread::JoinHandle;

/// Where a loader stands: save it with a checkpoint, and [`restore`](Loader::restore) it to go on with the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The seed of the order, if samples are shuffled.
    pub seed: Option<u64>,
    /// Epochs that are over.
    pub epoch: u64,
    /// Batches taken of this epoch.
    pub batch: u64,
}

/// Batches of a dataset, epoch by epoch.
///
/// Without options: in order, the last batch as short as it is, made on the caller's thread.
#[derive(Debug)]
pub struct Loader<D> {
    dataset: Arc<D>,
    size: usize,
    drop_last: bool,
    ahead: usize,
    position: Position,
}

impl<D: Dataset + 'static> Loader<D> {
    /// Batches of so many samples; 0 counts as 1.
    pub fn new(dataset: D, size: usize) -> Loader<D> {
        Loader {
            dataset: Arc::new(dataset),
            size: size.max(1),
            drop_last: false,
            ahead: 0,
            position: Position::default(),
        }
    }

    /// Every epoch in an order of its own, by the seed and the epoch's number.
    pub fn shuffle(mut self, seed: u64) -> Loader<D> {
        self.position.seed = Some(seed);
        self
    }

    /// No last batch that is shorter than the others.
    pub fn drop_last(mut self) -> Loader<D> {
        self.drop_last = true;
        self
    }

    /// Up to so many batches are made ahead, on another thread.
    pub fn prefetch(mut self, batches: usize) -> Loader<D> {
        self.ahead = batches;
        self
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// Batches of an epoch.
    pub fn batches(&self) -> usize {
        match self.drop_last {
            true => self.dataset.len() / self.size,
            false => self.dataset.len().div_ceil(self.size),
        }
    }

    /// Where the loader stands. Batches made ahead and not taken do not count.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Goes on from a position of a loader of the same dataset and batch size.
    pub fn restore(&mut self, position: Position) {
        self.position = position;
    }

    /// What is left of the epoch: all of it at first, and again when the last is over. Dropped earlier, the next call goes
    /// on with the batches that were not taken.
    ///
    /// ```
    /// use ferrotrace::data::{Loader, Tensors};
    /// use ferrotrace::prelude::*;
    ///
    /// let x = Tensor::arange(0, 6, 1, DType::I64, &Device::cpu());
    /// let mut loader = Loader::new(Tensors::new([x]), 2).shuffle(1).prefetch(2);
    /// let first = loader.epoch().next();
    /// let position = loader.position();
    /// let rest: Vec<_> = loader.epoch().collect();
    /// loader.restore(position);
    /// let again: Vec<_> = loader.epoch().collect();
    /// assert_eq!((first.is_some(), rest.len(), again.len()), (true, 2, 2));
    /// assert_eq!(rest[0][0].to_vec::<i64>()?, again[0][0].to_vec::<i64>()?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn epoch(&mut self) -> Epoch<'_, D> {
        let batches = self.batches() as u64;
        if self.position.batch >= batches && batches > 0 {
            self.advance();
        }
        let Position { seed, epoch, batch } = self.position;
        let plan = Plan {
            order: order(self.dataset.len(), seed, epoch),
            size: self.size,
            next: batch as usize,
            batches: batches as usize,
        };
        // A channel takes memory for all that it may hold.
        let source = match self.ahead.min(plan.batches) {
            0 => Source::Here(plan),
            ahead => Source::thread(self.dataset.clone(), plan, ahead),
        };
        Epoch {
            loader: self,
            source,
        }
    }

    fn advance(&mut self) {
        self.position.epoch = self.position.epoch.wrapping_add(1);
        self.position.batch = 0;
    }
}

/// The batches left of an epoch.
#[derive(Debug)]
struct Plan {
    order: Vec<usize>,
    size: usize,
    next: usize,
    batches: usize,
}

impl Plan {
    fn take<D: Dataset>(&mut self, dataset: &D) -> Option<D::Batch> {
        if self.next >= self.batches {
            return None;
        }
        let first = self.next * self.size;
        let end = (first + self.size).min(self.order.len());
        self.next += 1;
        Some(dataset.batch(&self.order[first..end]))
    }
}

/// Where batches come from.
#[derive(Debug)]
enum Source<B> {
    Here(Plan),
    /// The receiver goes first, so that the thread notices.
    Thread(Option<Receiver<B>>, Option<JoinHandle<()>>),
}

impl<B: Send + 'static> Source<B> {
    /// Batches made ahead on a thread, or on the caller's where the system has no more threads.
    fn thread<D: Dataset<Batch = B> + 'static>(
        dataset: Arc<D>,
        plan: Plan,
        ahead: usize,
    ) -> Source<B> {
        // One batch is in the sender's hands.
        let (sender, receiver) = sync_channel(ahead - 1);
        let (hand_over, handed) = sync_channel(1);
        let work = move || {
            let Ok::<Plan, _>(mut plan) = handed.recv() else {
                return;
            };
            while let Some(batch) = plan.take(&*dataset) {
                dataset.prepare(&batch);
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("ferrotrace-loader".into());
        let Ok(thread) = thread.spawn(work) else {
            return Source::Here(plan);
        };
        match hand_over.send(plan) {
            Ok(()) => Source::Thread(Some(receiver), Some(thread)),
            Err(SendError(plan)) => Source::Here(plan),
        }
    }
}

/// The batches left of an epoch, in order. A panic of the dataset on the prefetching thread goes on in the caller's.
#[derive(Debug)]
pub struct Epoch<'a, D: Dataset + 'static> {
    loader: &'a mut Loader<D>,
    source: Source<D::Batch>,
}

impl<D: Dataset + 'static> Iterator for Epoch<'_, D> {
    type Item = D::Batch;

    fn next(&mut self) -> Option<D::Batch> {
        let batch = match &mut self.source {
            Source::Here(plan) => plan.take(&*self.loader.dataset),
            Source::Thread(receiver, thread) => {
                let batch = receiver.as_ref().and_then(|receiver| receiver.recv().ok());
                if batch.is_none()
                    && let Some(thread) = thread.take()
                    && let Err(panic) = thread.join()
                {
                    resume_unwind(panic);
                }
                batch
            }
        };
        self.loader.position.batch += u64::from(batch.is_some());
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let taken = self.loader.position.batch as usize;
        let left = self.loader.batches().saturating_sub(taken);
        (left, Some(left))
    }
}

impl<D: Dataset + 'static> ExactSizeIterator for Epoch<'_, D> {}

impl<D: Dataset + 'static> Drop for Epoch<'_, D> {
    fn drop(&mut self) {
        if let Source::Thread(receiver, thread) = &mut self.source {
            receiver.take();
            if let Some(thread) = thread.take() {
                // A panic of a batch that nobody takes concerns nobody.
                let _ = thread.join();
            }
        }
    }
}
