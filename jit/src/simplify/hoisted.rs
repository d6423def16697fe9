//! Products of few rows by one matrix as products of many: x₁·w, x₂·w, .. are rows of [x₁; x₂; ..]·w.
//!
//! A recurrence multiplies the input of each step by the same weight, and reads that weight for each. Where the inputs depend
//! on none of these products, one product of all their rows reads it once. It is held until its last rows are used, so a group
//! has as many members as memory allows.

use crate::graph::{Graph, Node, NodeOp, Precision};
use crate::policy::Thresholds;
use ferrotrace_kernels::op::{Cat, Reshape, Select, Slice};
use ferrotrace_kernels::{Extent, Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, Result};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Products that are computed as one, and what their rows are.
#[derive(Debug)]
struct Group {
    members: Vec<usize>,
    rows: Rows,
}

/// What a group multiplies.
#[derive(Debug)]
enum Rows {
    /// Neighbouring positions of a dimension of one tensor: from the first to behind the last.
    Positions(ValueId, usize, (usize, usize)),
    /// Matrices, one below the other.
    Joined,
}

/// A place in the new order.
#[derive(Debug)]
enum Place {
    Node(usize),
    Group(Group),
}

/// The graph with products of few rows by one matrix in groups. `room` gives, for each node, how many bytes more may be held
/// while it runs.
///
/// # Errors
/// An operator of the graph refuses its operands.
pub(crate) fn hoisted(
    graph: Graph,
    bounds: &Thresholds,
    room: impl FnOnce(&Graph) -> Vec<i64>,
) -> Result<Graph> {
    let next = followers(&graph, bounds);
    if next.is_empty() {
        return Ok(graph);
    }
    let mut hoisting = Hoisting {
        room: room(&graph),
        last: last_uses(&graph),
        placed: vec![false; graph.nodes().len()],
        met: vec![usize::MAX; graph.nodes().len()],
        places: Vec::with_capacity(graph.nodes().len()),
        visits: 8 * graph.nodes().len(),
        most: bounds.hoisted_rows,
        graph: &graph,
        next,
    };
    (0..graph.nodes().len()).for_each(|node| hoisting.place(node));
    let places = hoisting.places;
    match places.iter().any(|place| matches!(place, Place::Group(_))) {
        true => rebuilt(&graph, &places),
        false => Ok(graph),
    }
}

/// For each product of few rows the next by the same matrix.
fn followers(graph: &Graph, bounds: &Thresholds) -> FxHashMap<usize, usize> {
    let mut before: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut next = FxHashMap::default();
    let kept = kept(graph);
    for (i, node) in graph.nodes().iter().enumerate() {
        let Some((left, right)) = product(graph, node).filter(|_| !kept[i]) else {
            continue;
        };
        let few = bounds.hoisted_few.min(bounds.hoisted_rows / 2);
        if (1..=few).contains(&graph.node(left).shape[0])
            && let Some(before) = before.insert(right, i)
        {
            next.insert(before, i);
        }
    }
    next
}

/// Whether each node is a result, or one looks at it: a part of a product would keep all of it alive.
fn kept(graph: &Graph) -> Vec<bool> {
    let mut kept = vec![false; graph.nodes().len()];
    for output in graph.outputs() {
        kept[output.0 as usize] = true;
    }
    for i in (0..kept.len()).rev() {
        if kept[i] && graph.nodes()[i].is(Op::is_view) {
            let operands = graph.operands(ValueId(i as u32));
            operands.for_each(|x| kept[x.0 as usize] = true);
        }
    }
    kept
}

/// The operands of a product of two matrices.
fn product(graph: &Graph, node: &Node) -> Option<(ValueId, ValueId)> {
    let [Operand::Value(left), Operand::Value(right)] = node.args[..] else {
        return None;
    };
    let is_matrix = |x: ValueId| {
        let operand = graph.node(x);
        operand.shape.rank() == 2 && operand.shape.numel() > 0
    };
    let dtype = graph.node(left).dtype;
    let float = matches!(node.dtype, DType::F32 | DType::F64);
    // Products that are not rounded have operands of a half type.
    let alike = dtype == graph.node(right).dtype && dtype.compute() == node.dtype;
    let fits = float && alike && node.precision == Precision::Fast && node.is(Op::is_matmul);
    (fits && is_matrix(left) && is_matrix(right)).then_some((left, right))
}

/// The last node that reads each, the end for results.
fn last_uses(graph: &Graph) -> Vec<usize> {
    let mut last = vec![0; graph.nodes().len()];
    for i in 0..last.len() {
        for operand in graph.operands(ValueId(i as u32)) {
            last[operand.0 as usize] = i;
        }
    }
    for output in graph.outputs() {
        last[output.0 as usize] = usize::MAX;
    }
    last
}

/// Puts nodes into a new order.
struct Hoisting<'a> {
    graph: &'a Graph,
    next: FxHashMap<usize, usize>,
    room: Vec<i64>,
    last: Vec<usize>,
    placed: Vec<bool>,
    places: Vec<Place>,
    /// The product whose operands met each node last.
    met: Vec<usize>,
    /// How many nodes may still be looked at for what operands are computed of.
    visits: usize,
    /// Most rows of a group.
    most: usize,
}

impl Hoisting<'_> {
    fn place(&mut self, node: usize) {
        if self.placed[node] {
            return;
        }
        let place = match self.group(node) {
            Some(group) => Place::Group(group),
            None => Place::Node(node),
        };
        self.placed[node] = true;
        self.places.push(place);
    }

    /// The products that are computed together with this one. What their operands are computed of is placed before.
    fn group(&mut self, first: usize) -> Option<Group> {
        let graph = self.graph;
        let (left, _) = product(graph, &graph.nodes()[first])?;
        let size = graph.node(left).dtype.size() as i64;
        let mut members = vec![first];
        let mut rows = match position(graph, left) {
            Some((of, dim, at)) => Rows::Positions(of, dim, (at, at + 1)),
            None => Rows::Joined,
        };
        // The bytes of the product, which is held until the last member is used, and how many there may be until then.
        let mut held = self.bytes(first);
        let (mut until, mut room) = (first, i64::MAX);
        let mut height = graph.node(left).shape[0];
        while let Some(&next) = members.last().and_then(|last| self.next.get(last)) {
            let (left, _) = product(graph, &graph.nodes()[next])?;
            height += graph.node(left).shape[0];
            let end = self.last[next].clamp(next, self.room.len() - 1);
            let least = self.room[until..=end.max(until)].iter().min();
            room = least.map_or(room, |&least| room.min(least));
            let joined = match rows {
                Rows::Positions(..) => 0,
                Rows::Joined => (height * graph.node(left).shape[1]) as i64 * size,
            };
            let Some(more) = extended(graph, &rows, left) else {
                break;
            };
            let Some(cone) = self.cone(left, next) else {
                break;
            };
            let outlives = cone.iter().filter(|&&node| self.last[node] > next);
            let early: i64 = outlives.map(|&node| self.bytes(node)).sum();
            let bytes = held + early + self.bytes(next);
            if height > self.most || bytes > room || bytes + joined > self.room[first] {
                break;
            }
            for node in cone {
                self.placed[node] = true;
                self.places.push(Place::Node(node));
            }
            (rows, held, until) = (more, bytes, until.max(end));
            members.push(next);
        }
        if members.len() == 1 {
            return None;
        }
        for room in &mut self.room[first..=until] {
            *room -= held;
        }
        members
            .iter()
            .for_each(|&member| self.placed[member] = true);
        Some(Group { members, rows })
    }

    /// What is not placed yet of an operand of the product `of`, and of what it is computed of, in order. `None` where a product
    /// by the same matrix is among it.
    fn cone(&mut self, value: ValueId, of: usize) -> Option<Vec<usize>> {
        let right = |node: usize| product(self.graph, &self.graph.nodes()[node]).map(|of| of.1);
        let mut found: Vec<usize> = Vec::new();
        let mut stack: SmallVec<[ValueId; 8]> = SmallVec::from_slice(&[value]);
        while let Some(x) = stack.pop() {
            let node = x.0 as usize;
            if self.placed[node] || self.met[node] == of {
                continue;
            }
            if right(node).is_some_and(|matrix| Some(matrix) == right(of)) {
                return None;
            }
            self.visits = self.visits.checked_sub(1)?;
            self.met[node] = of;
            found.push(node);
            stack.extend(self.graph.operands(x));
        }
        found.sort_unstable();
        Some(found)
    }

    fn bytes(&self, node: usize) -> i64 {
        let node = &self.graph.nodes()[node];
        match node.is(Op::is_view) || node.operator().is_none() {
            true => 0,
            false => (node.shape.numel() * node.dtype.size()) as i64,
        }
    }
}

/// The tensor of which a matrix is one position along another dimension than the last.
fn position(graph: &Graph, matrix: ValueId) -> Option<(ValueId, usize, usize)> {
    let of = graph.operands(matrix).next()?;
    let shape = &graph.node(of).shape;
    let window = graph.node(matrix).operator()?.as_view()?.window(shape)?;
    let one = shape.rank() == 3 && window.dim < 2;
    one.then(|| (of, window.dim, window.span(shape).0))
}

/// The rows with those of one more matrix; `None` if they are no neighbours.
fn extended(graph: &Graph, rows: &Rows, matrix: ValueId) -> Option<Rows> {
    let &Rows::Positions(of, dim, (start, end)) = rows else {
        return Some(Rows::Joined);
    };
    let (other, along, at) = position(graph, matrix)?;
    let span = match at {
        at if at == end => (start, end + 1),
        at if at + 1 == start => (at, end),
        _ => return None,
    };
    ((other, along) == (of, dim)).then_some(Rows::Positions(of, dim, span))
}

/// The graph in the new order.
fn rebuilt(graph: &Graph, places: &[Place]) -> Result<Graph> {
    let mut new = Graph::with_capacity(graph.nodes().len());
    new.set_device(&graph.device());
    let mut map = vec![ValueId(u32::MAX); graph.nodes().len()];
    for (i, node) in graph.nodes().iter().enumerate() {
        if let NodeOp::Input(n) = node.op {
            let input = &graph.inputs()[n as usize];
            map[i] = new.input(&input.layout, input.dtype, &input.device);
        }
    }
    for place in places {
        match place {
            Place::Node(i) => {
                let NodeOp::Op(op) = &graph.nodes()[*i].op else {
                    continue;
                };
                come_from(&mut new, &graph.nodes()[*i]);
                let args = &graph.nodes()[*i].args;
                let args: SmallVec<[Operand; 3]> = args
                    .iter()
                    .map(|arg| match arg {
                        Operand::Value(x) => Operand::Value(map[x.0 as usize]),
                        number => *number,
                    })
                    .collect();
                map[*i] = new.push(op.clone(), &args)?;
                new.set_rounding(map[*i], graph.nodes()[*i].rounding);
            }
            Place::Group(group) => compute(graph, group, &mut new, &mut map)?,
        }
    }
    let outputs = graph.outputs().iter().map(|v| map[v.0 as usize]).collect();
    new.set_outputs(outputs);
    Ok(new)
}

/// What is pushed from now on comes from the same recorded node.
pub(super) fn come_from(new: &mut Graph, node: &Node) {
    new.set_origin(node.location, node.precision);
    new.set_name(node.name);
    if let Some(recorded) = node.recorded {
        new.set_recorded(recorded);
    }
}

/// Pushes the product of a group, and its members as parts of that.
fn compute(graph: &Graph, group: &Group, new: &mut Graph, map: &mut [ValueId]) -> Result<()> {
    let missing = || Error::internal("a group of other nodes than products");
    let operands = |&member: &usize| product(graph, &graph.nodes()[member]);
    let lefts: Option<Vec<ValueId>> = group.members.iter().map(|m| Some(operands(m)?.0)).collect();
    let (lefts, right) = (
        lefts.ok_or_else(missing)?,
        operands(&group.members[0]).ok_or_else(missing)?.1,
    );
    let op = graph.nodes()[group.members[0]].operator();
    let op = op.ok_or_else(missing)?;
    let columns = graph.node(right).shape[1];
    let right = map[right.0 as usize];
    come_from(new, &graph.nodes()[group.members[0]]);
    match group.rows {
        Rows::Positions(of, dim, (start, end)) => {
            let (mut x, whole) = (map[of.0 as usize], graph.node(of).shape[dim]);
            if (start, end) != (0, whole) {
                let part = Slice::between(dim, start as isize, end - start);
                x = new.push(Op::from(part), &[x.into()])?;
            }
            let mut sizes: Vec<usize> = new.shape(x).to_vec();
            let terms = sizes[sizes.len() - 1];
            let rows = sizes[..sizes.len() - 1].iter().product();
            let x = reshape(new, x, &[rows, terms])?;
            let y = new.push(op.clone(), &[x.into(), right.into()])?;
            if let Some(last) = sizes.last_mut() {
                *last = columns;
            }
            let y = reshape(new, y, &sizes)?;
            for (&member, &left) in group.members.iter().zip(&lefts) {
                let (.., at) = position(graph, left).ok_or_else(missing)?;
                come_from(new, &graph.nodes()[member]);
                let index = (at - start) as isize;
                map[member] = new.push(Op::from(Select { dim, index }), &[y.into()])?;
            }
        }
        Rows::Joined => {
            let all: Vec<Operand> = lefts.iter().map(|x| map[x.0 as usize].into()).collect();
            let x = new.push(Op::from(Cat { dim: 0 }), &all)?;
            let y = new.push(op.clone(), &[x.into(), right.into()])?;
            let mut start = 0;
            for (&member, &left) in group.members.iter().zip(&lefts) {
                let height = graph.node(left).shape[0];
                come_from(new, &graph.nodes()[member]);
                let part = Slice::between(0, start, height);
                map[member] = new.push(Op::from(part), &[y.into()])?;
                start += height as isize;
            }
        }
    }
    Ok(())
}

fn reshape(new: &mut Graph, x: ValueId, sizes: &[usize]) -> Result<ValueId> {
    let extents = sizes.iter().map(|&n| Extent::Size(n)).collect();
    new.push(Op::from(Reshape(extents)), &[x.into()])
}
