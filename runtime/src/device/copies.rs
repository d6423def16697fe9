//! Copies of constant memory in the orders in which kernels read it.

use super::Buffer;
use crate::{Device, Layout, Result};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// How many bytes copies may take: those of all buffers that share it.
#[derive(Debug, Default)]
pub struct Room {
    most: AtomicU64,
    taken: AtomicU64,
}

impl Room {
    /// Lets copies take `bytes` at least.
    pub fn at_least(&self, bytes: u64) {
        self.most.fetch_max(bytes, Relaxed);
    }

    /// Bytes that copies take.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    fn holds(&self, bytes: u64) -> bool {
        self.taken().saturating_add(bytes) <= self.most.load(Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = |taken: u64| {
            let all = taken.saturating_add(bytes);
            (all <= self.most.load(Relaxed)).then_some(all)
        };
        self.taken.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }
}

/// What a copy holds: the elements of a window, in an order that its name says.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The name.
    pub name: &'static str,
    /// The window.
    pub of: &'a Layout,
}

/// The copies of one buffer. A copy stays until all of them go.
pub struct Copies {
    room: Arc<Room>,
    first: Next,
}

type Next = OnceLock<Box<Copied>>;

/// One copy, and those made after it: they are found without a lock or a count that threads would share.
struct Copied {
    name: &'static str,
    of: Layout,
    /// None if there was no memory, or another took the room meanwhile.
    memory: Option<Buffer>,
    next: Next,
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = &self.first;
        let orders = std::iter::from_fn(|| {
            let copy = at.get()?;
            at = &copy.next;
            Some((copy.name, copy.memory.as_ref().map(Buffer::bytes)))
        });
        f.debug_map().entries(orders).finish()
    }
}

impl Copies {
    /// No copies yet.
    pub fn new(room: Arc<Room>) -> Copies {
        Copies {
            room,
            first: Next::new(),
        }
    }

    /// The copy in an order; the first thread to ask makes it, others wait for it.
    pub(super) fn get(
        &self,
        order: Order<'_>,
        bytes: usize,
        make: impl FnOnce(&mut Buffer) -> Result<()>,
    ) -> Option<&Buffer> {
        let mut make = Some(make);
        let mut at = &self.first;
        loop {
            if at.get().is_none() && !self.room.holds(bytes as u64) {
                return None;
            }
            let copy = at.get_or_init(|| {
                let made = make.take().and_then(|make| self.make(bytes, make));
                Box::new(Copied {
                    name: order.name,
                    of: order.of.clone(),
                    memory: made,
                    next: Next::new(),
                })
            });
            if copy.name == order.name && copy.of == *order.of {
                return copy.memory.as_ref();
            }
            at = &copy.next;
        }
    }

    fn make(&self, bytes: usize, make: impl FnOnce(&mut Buffer) -> Result<()>) -> Option<Buffer> {
        if !self.room.take(bytes as u64) {
            return None;
        }
        let memory = Buffer::allocate(&Device::cpu(), bytes);
        let made = memory.and_then(|mut memory| make(&mut memory).map(|()| memory));
        if made.is_err() {
            self.room.taken.fetch_sub(bytes as u64, Relaxed);
        }
        made.ok()
    }
}

impl Drop for Copies {
    /// Gives the room back, and drops a long list without recursion.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut copy) = next {
            let bytes = copy.memory.as_ref().map_or(0, Buffer::bytes);
            self.room.taken.fetch_sub(bytes as u64, Relaxed);
            next = copy.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> Buffer {
        Buffer::from_slice(&Device::cpu(), &[1.0f32, 2.0, 3.0, 4.0]).expect("memory")
    }

    fn reversed(of: &Buffer, to: &mut Buffer) -> Result<()> {
        let from = of.as_slice::<f32>().iter().rev();
        let to = to.get_mut::<f32>().into_iter().flatten();
        to.zip(from).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    #[test]
    fn a_copy_is_made_once_and_found_by_all_twins() {
        let (of, room) = (buffer(), Arc::new(Room::default()));
        room.at_least(32);
        let constant = of.with_copies(Arc::new(Copies::new(room.clone())));
        let (twin, window) = (constant.twin(), Layout::contiguous([4].into()));
        let order = Order {
            name: "reversed",
            of: &window,
        };
        let copy = constant.copy_in(order, 16, |to| reversed(&of, to));
        let copy = copy.expect("there is room");
        assert_eq!(copy.as_slice::<f32>(), [4.0, 3.0, 2.0, 1.0]);
        let again = twin.copy_in(order, 16, |_| panic!("it is there"));
        assert!(again.is_some_and(|again| again.same(copy)));
        // Another window is another copy, as far as there is room.
        let other = Layout::contiguous([2, 2].into());
        let order = Order {
            name: "reversed",
            of: &other,
        };
        assert!(
            constant
                .copy_in(order, 16, |to| reversed(&of, to))
                .is_some()
        );
        let order = Order {
            name: "other",
            of: &other,
        };
        assert!(constant.copy_in(order, 16, |_| Ok(())).is_none());
        assert!(of.copy_in(order, 16, |_| Ok(())).is_none() && !constant.is_unique());
        assert_eq!(room.taken(), 32);
        drop((constant, twin));
        assert_eq!(room.taken(), 0);
        assert!(of.is_unique());
    }

    #[test]
    fn threads_that_ask_at_once_make_one_copy() {
        let (of, room) = (buffer(), Arc::new(Room::default()));
        room.at_least(1 << 10);
        let constant = of.with_copies(Arc::new(Copies::new(room.clone())));
        let window = Layout::contiguous([4].into());
        let made = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for name in ["a", "b", "a", "b", "a", "b"] {
                let (constant, window, made, of) = (&constant, &window, &made, &of);
                scope.spawn(move || {
                    let order = Order { name, of: window };
                    let copy = constant.copy_in(order, 16, |to| {
                        made.fetch_add(1, Relaxed);
                        reversed(of, to)
                    });
                    assert_eq!(copy.expect("room").as_slice::<f32>()[0], 4.0);
                });
            }
        });
        assert_eq!((made.into_inner(), room.taken()), (2, 32));
    }
}
