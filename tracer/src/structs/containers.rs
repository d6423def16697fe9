//! Arrays, vectors, options, boxes and maps of what a `jit` function can take. Items of vectors and arrays are named by
//! their position, those of maps by their key; options and boxes add nothing to a name.

use super::TensorStruct;
use super::arg::{ArgKind, JitArg, Lender};
use super::visit::Visit;
use crate::Tensor;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::marker::PhantomData;

/// The family of arrays.
#[derive(Debug)]
#[doc(hidden)]
pub struct ArrayOf<K, const N: usize>(PhantomData<K>);

impl<K: ArgKind, const N: usize> ArgKind for ArrayOf<K, N> {
    type Of<'a> = [K::Of<'a>; N];

    fn lend<'p>(like: &'p [K::Of<'_>; N], lender: &mut Lender<'p>) -> [K::Of<'p>; N] {
        std::array::from_fn(|i| K::lend(&like[i], lender))
    }
}

impl<T: JitArg, const N: usize> JitArg for [T; N] {
    type Kind = ArrayOf<T::Kind, N>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        for (position, item) in self.iter().enumerate() {
            visit.item(position, item);
        }
    }
}

impl<T: TensorStruct, const N: usize> TensorStruct for [T; N] {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        self.iter_mut().for_each(|item| item.visit_mut(visit));
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> [T; N] {
        std::array::from_fn(|i| self[i].rebuild(tensor))
    }
}

/// The family of vectors.
#[derive(Debug)]
#[doc(hidden)]
pub struct VecOf<K>(PhantomData<K>);

impl<K: ArgKind> ArgKind for VecOf<K> {
    type Of<'a> = Vec<K::Of<'a>>;

    fn lend<'p>(like: &'p Vec<K::Of<'_>>, lender: &mut Lender<'p>) -> Vec<K::Of<'p>> {
        like.iter().map(|item| K::lend(item, lender)).collect()
    }
}

impl<T: JitArg> JitArg for Vec<T> {
    type Kind = VecOf<T::Kind>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.length(self.len());
        for (position, item) in self.iter().enumerate() {
            visit.item(position, item);
        }
    }
}

impl<T: TensorStruct> TensorStruct for Vec<T> {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        self.iter_mut().for_each(|item| item.visit_mut(visit));
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<T> {
        self.iter().map(|item| item.rebuild(tensor)).collect()
    }
}

/// The family of options.
#[derive(Debug)]
#[doc(hidden)]
pub struct OptionOf<K>(PhantomData<K>);

impl<K: ArgKind> ArgKind for OptionOf<K> {
    type Of<'a> = Option<K::Of<'a>>;

    fn lend<'p>(like: &'p Option<K::Of<'_>>, lender: &mut Lender<'p>) -> Option<K::Of<'p>> {
        like.as_ref().map(|value| K::lend(value, lender))
    }
}

impl<T: JitArg> JitArg for Option<T> {
    type Kind = OptionOf<T::Kind>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.variant(usize::from(self.is_some()));
        if let Some(value) = self {
            value.visit(visit);
        }
    }
}

impl<T: TensorStruct> TensorStruct for Option<T> {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        if let Some(value) = self {
            value.visit_mut(visit);
        }
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<T> {
        self.as_ref().map(|value| value.rebuild(tensor))
    }
}

/// The family of boxes.
#[derive(Debug)]
#[doc(hidden)]
pub struct BoxOf<K>(PhantomData<K>);

impl<K: ArgKind> ArgKind for BoxOf<K> {
    type Of<'a> = Box<K::Of<'a>>;

    fn lend<'p>(like: &'p Box<K::Of<'_>>, lender: &mut Lender<'p>) -> Box<K::Of<'p>> {
        Box::new(K::lend(like, lender))
    }
}

impl<T: JitArg> JitArg for Box<T> {
    type Kind = BoxOf<T::Kind>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        (**self).visit(visit);
    }
}

impl<T: TensorStruct> TensorStruct for Box<T> {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        (**self).visit_mut(visit);
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Box<T> {
        Box::new((**self).rebuild(tensor))
    }
}

/// The family of sorted maps.
#[derive(Debug)]
#[doc(hidden)]
pub struct TreeOf<K>(PhantomData<K>);

impl<K: ArgKind> ArgKind for TreeOf<K> {
    type Of<'a> = BTreeMap<String, K::Of<'a>>;

    fn lend<'p>(
        like: &'p BTreeMap<String, K::Of<'_>>,
        lender: &mut Lender<'p>,
    ) -> BTreeMap<String, K::Of<'p>> {
        let entry = |(key, value): (&String, &'p K::Of<'_>)| (key.clone(), K::lend(value, lender));
        like.iter().map(entry).collect()
    }
}

impl<T: JitArg> JitArg for BTreeMap<String, T> {
    type Kind = TreeOf<T::Kind>;

    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.length(self.len());
        for (key, value) in self {
            visit.bytes(key.as_bytes());
            visit.field(key, value);
        }
    }
}

impl<T: TensorStruct> TensorStruct for BTreeMap<String, T> {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        self.values_mut().for_each(|value| value.visit_mut(visit));
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> BTreeMap<String, T> {
        let entry = |(key, value): (&String, &T)| (key.clone(), value.rebuild(tensor));
        self.iter().map(entry).collect()
    }
}

/// The entries of a map in the order of their keys.
pub(super) fn sorted<T, S>(map: &HashMap<String, T, S>) -> Vec<(&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// The family of hash maps: their entries are taken in the order of their keys.
#[derive(Debug)]
#[doc(hidden)]
pub struct MapOf<K, S>(PhantomData<(K, S)>);

impl<K: ArgKind, S: BuildHasher + Clone + 'static> ArgKind for MapOf<K, S> {
    type Of<'a> = HashMap<String, K::Of<'a>, S>;

    fn lend<'p>(
        like: &'p HashMap<String, K::Of<'_>, S>,
        lender: &mut Lender<'p>,
    ) -> HashMap<String, K::Of<'p>, S> {
        let mut map = HashMap::with_capacity_and_hasher(like.len(), like.hasher().clone());
        for (key, value) in sorted(like) {
            map.insert(key.clone(), K::lend(value, lender));
        }
        map
    }
}

impl<T: JitArg, S: BuildHasher + Clone + 'static> JitArg for HashMap<String, T, S> {
    type Kind = MapOf<T::Kind, S>;

    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.length(self.len());
        for (key, value) in sorted(self) {
            visit.bytes(key.as_bytes());
            visit.field(key, value);
        }
    }
}

impl<T, S> TensorStruct for HashMap<String, T, S>
where
    T: TensorStruct,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        let mut entries: Vec<_> = self.iter_mut().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (_, value) in entries {
            value.visit_mut(visit);
        }
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> HashMap<String, T, S> {
        let mut map = HashMap::with_capacity_and_hasher(self.len(), self.hasher().clone());
        for (key, value) in sorted(self) {
            map.insert(key.clone(), value.rebuild(tensor));
        }
        map
    }
}
