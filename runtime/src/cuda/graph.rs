//! Graphs: recordings made into one launch (scheduler G-04: a recorded run becomes a graph).
//!
//! A graph's commands run one after another. What they work on is *given* at each launch, memory of the caller's and
//! one block for all that lives within the recording; arguments that differ from the last launch's are patched. Results
//! are memory of the caller's too, so what somebody holds is never overwritten by a later launch; until a result is begun,
//! its memory serves for what dies before.

mod arena;

use super::context::failed;
use super::record::{Command, Held, Recording, Symbol, Work, symbol_at};
use super::{Context, context};
use crate::observe::counters::{Counter, count};
use crate::{Error, Result};
use arena::{ALIGN, places};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ptr;

/// The port of a kernel node whose dependents may begin before the kernel ends.
const PROGRAMMATIC_PORT: u8 = 1;

/// An argument that holds an address in given memory.
#[derive(Clone, Copy, Debug)]
struct Use {
    command: u32,
    word: u32,
    place: u64,
}

/// A recording that can be launched at once, many times.
pub struct Capture {
    context: &'static Context,
    commands: Vec<Command>,
    /// Bytes that each given block has at least; the last is the graph's own memory.
    given: Vec<usize>,
    /// Whether other symbols lie in a block until it is begun.
    lending: Vec<bool>,
    /// Arguments by the block that they point to.
    uses: Vec<Vec<Use>>,
    /// Where the blocks were at the last launch.
    addresses: Vec<u64>,
    /// Commands whose words were changed since.
    changed: Vec<bool>,
    graph: Option<Graph>,
    kernels: usize,
    /// Keeps the code that commands launch loaded.
    _held: Vec<Held>,
}

/// The driver's side, made at the first launch.
struct Graph {
    context: &'static Context,
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
}

// SAFETY: graphs may be used from any thread, by one at a time, which exclusive borrows see to.
unsafe impl Send for Capture {}

impl Capture {
    /// Prepares a recording. `given` are the symbols whose memory each launch is given, in the order of its buffers.
    ///
    /// # Errors
    /// `Internal` for a recording whose memory is still held.
    pub fn new(recording: Recording, given: &[u32]) -> Result<Capture> {
        let context = context(recording.device())?;
        let mut blocks = vec![(given.len(), 0u64); recording.symbols.len()];
        for (block, symbol) in given.iter().enumerate() {
            match blocks.get_mut(*symbol as usize) {
                Some(slot) => *slot = (block, 0),
                None => return Err(Error::internal("a graph is given memory of no symbol")),
            }
        }
        let (own, held): (Vec<usize>, Vec<usize>) =
            (0..blocks.len()).partition(|&at| blocks[at].0 == given.len());
        let of = |all: &[usize]| -> Vec<&Symbol> {
            all.iter().map(|&at| &recording.symbols[at]).collect()
        };
        let places = places(&of(&own), &of(&held));
        // For each symbol its block, and where it starts there.
        let mut lending = vec![false; given.len() + 1];
        for (at, (result, offset)) in own.into_iter().zip(places.of) {
            let block = result.map_or(given.len(), |result| blocks[held[result]].0);
            lending[block] |= result.is_some();
            blocks[at] = (block, offset as u64);
        }
        let bytes = places.bytes;
        let sizes = given.iter().map(|&s| recording.symbols[s as usize].bytes);
        let mut uses = vec![Vec::new(); given.len() + 1];
        for (c, command) in recording.commands.iter().enumerate() {
            for (w, word) in command.words.iter().enumerate() {
                if command.scalars.iter().any(|(_, of)| of.contains(&w)) {
                    continue;
                }
                let Some((symbol, place)) = symbol_at(*word) else {
                    continue;
                };
                let (block, start) = *blocks
                    .get(symbol as usize)
                    .ok_or_else(|| Error::internal("a symbol of another recording"))?;
                uses[block].push(Use {
                    command: c as u32,
                    word: w as u32,
                    place: start + place,
                });
            }
        }
        let kernel = |c: &&Command| matches!(c.work, Work::Kernel { .. });
        Ok(Capture {
            context,
            kernels: recording.commands.iter().filter(kernel).count(),
            changed: vec![true; recording.commands.len()],
            addresses: vec![0; given.len() + 1],
            given: sizes.chain([bytes]).collect(),
            lending,
            uses,
            commands: recording.commands,
            _held: recording.held,
            graph: None,
        })
    }

    /// Bytes that a launch needs besides what it is given.
    pub fn own_bytes(&self) -> usize {
        self.given.last().copied().unwrap_or(0)
    }

    /// Whether it was never launched.
    pub fn is_new(&self) -> bool {
        self.graph.is_none()
    }

    /// Sets a number of a command for the next launches.
    #[inline]
    pub fn set_number(&mut self, command: usize, word: usize, bits: u64) {
        let slot = &mut self.commands[command].words[word];
        if *slot != bits {
            *slot = bits;
            self.changed[command] = true;
        }
    }

    /// The index of the device.
    pub(crate) fn device(&self) -> u32 {
        self.context.index()
    }

    /// Puts the commands on the device's stream, working on memory that begins at these addresses and has so many bytes
    /// from there on; none for memory that is not the device's. `own` is a block of [`own_bytes`](Self::own_bytes).
    ///
    /// # Errors
    /// `Internal` for memory of another device, or too little; `Device` for what the driver answers. Nothing has run
    /// then.
    pub(crate) fn launch_on(
        &mut self,
        memory: impl Iterator<Item = Option<(u64, usize)>>,
        own: u64,
    ) -> Result<()> {
        let index = self.context.index();
        let mut count_of = 0;
        for (block, memory) in memory.enumerate() {
            let enough = |&(_, bytes): &(u64, usize)| {
                block + 1 < self.given.len() && bytes >= self.given[block]
            };
            let Some((address, _)) = memory.filter(enough) else {
                return Err(Error::internal(
                    "a graph is given other memory than it needs",
                ));
            };
            if self.lending[block] && !address.is_multiple_of(ALIGN as u64) {
                return Err(Error::internal("a graph's result begins within a block"));
            }
            self.place(block, address);
            count_of += 1;
        }
        if count_of + 1 != self.given.len() {
            return Err(Error::internal("a graph is given too little memory"));
        }
        self.place(count_of, own);
        self.context.bind()?;
        match &self.graph {
            None => self.graph = Some(self.instantiate()?),
            Some(graph) => self.patch(graph)?,
        }
        self.changed.fill(false);
        let Some(graph) = &self.graph else {
            return Err(Error::internal("a graph was not made"));
        };
        // SAFETY: the graph is whole; what its commands read and write is the memory given, as recorded, and the
        // block of its own, which is handed on in the stream's order.
        unsafe { sys::cuGraphLaunch(graph.exec, self.context.stream()) }
            .result()
            .map_err(failed(index, "a graph's launch"))?;
        count(Counter::GraphLaunches, 1);
        count(Counter::KernelsLaunched, self.kernels as u64);
        Ok(())
    }

    /// Notes where a block is.
    #[inline]
    fn place(&mut self, block: usize, address: u64) {
        if std::mem::replace(&mut self.addresses[block], address) == address {
            return;
        }
        for u in &self.uses[block] {
            self.commands[u.command as usize].words[u.word as usize] = address + u.place;
            self.changed[u.command as usize] = true;
        }
    }

    /// A graph of all commands with their present arguments.
    fn instantiate(&self) -> Result<Graph> {
        let error = || failed(self.context.index(), "making a graph");
        let mut made = Graph {
            context: self.context,
            graph: ptr::null_mut(),
            exec: ptr::null_mut(),
            nodes: Vec::with_capacity(self.commands.len()),
        };
        // SAFETY: pointers are to live variables; what is made is destroyed with `made`.
        unsafe { sys::cuGraphCreate(&mut made.graph, 0).result() }.map_err(error())?;
        let overlaps = super::probe().is_ok_and(|driver| driver.overlaps_kernels());
        for (i, command) in self.commands.iter().enumerate() {
            let previous = i.checked_sub(1).map(|i| &self.commands[i]);
            let all = made.nodes.last().map_or(&[][..], std::slice::from_ref);
            let early = overlaps && previous.is_some_and(Command::waits) && command.waits();
            let before = if early { &[][..] } else { all };
            let mut node = ptr::null_mut();
            match &command.work {
                Work::Kernel { .. } => with_parameters(command, |parameters| {
                    // SAFETY: the graph and the node before are alive, and the driver copies parameters and arguments.
                    unsafe {
                        sys::cuGraphAddKernelNode_v2(
                            &mut node,
                            made.graph,
                            before.as_ptr(),
                            before.len(),
                            parameters,
                        )
                    }
                })
                .result()
                .map_err(error())?,
                Work::Copy(bytes) => {
                    let copy = copied(&command.words, *bytes);
                    // SAFETY: the graph and the node before are alive, and the driver copies parameters.
                    unsafe {
                        sys::cuGraphAddMemcpyNode(
                            &mut node,
                            made.graph,
                            before.as_ptr(),
                            before.len(),
                            &copy,
                            self.context.raw(),
                        )
                    }
                    .result()
                    .map_err(error())?;
                }
                Work::Clear(bytes) => {
                    let clear = cleared(&command.words, *bytes);
                    // SAFETY: the graph and the node before are alive, and the driver copies parameters.
                    unsafe {
                        sys::cuGraphAddMemsetNode(
                            &mut node,
                            made.graph,
                            before.as_ptr(),
                            before.len(),
                            &clear,
                            self.context.raw(),
                        )
                    }
                    .result()
                    .map_err(error())?;
                }
                library => {
                    let child = Child::of(self.context, library, &command.words)?;
                    // SAFETY: the graph and the node before are alive, and the driver copies parameters and the child.
                    unsafe {
                        sys::cuGraphAddChildGraphNode(
                            &mut node,
                            made.graph,
                            before.as_ptr(),
                            before.len(),
                            child.0,
                        )
                    }
                    .result()
                    .map_err(error())?;
                }
            }
            if early {
                // The kernel may begin while the one before ends, whose end it waits for by itself.
                let edge = sys::CUgraphEdgeData {
                    from_port: PROGRAMMATIC_PORT,
                    to_port: 0,
                    type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
                    reserved: [0; 5],
                };
                // SAFETY: both nodes are kernels of the graph.
                unsafe {
                    sys::cuGraphAddDependencies_v2(made.graph, all.as_ptr(), &node, &edge, 1)
                }
                .result()
                .map_err(error())?;
            }
            made.nodes.push(node);
        }
        // SAFETY: the graph is alive.
        unsafe { sys::cuGraphInstantiateWithFlags(&mut made.exec, made.graph, 0) }
            .result()
            .map_err(error())?;
        count(Counter::GraphsCaptured, 1);
        Ok(made)
    }

    /// Gives changed commands their present arguments.
    fn patch(&self, graph: &Graph) -> Result<()> {
        let error = || failed(self.context.index(), "changing a graph");
        let all = self.commands.iter().zip(&graph.nodes).zip(&self.changed);
        for ((command, node), _) in all.filter(|(_, changed)| **changed) {
            match &command.work {
                Work::Kernel { .. } => with_parameters(command, |parameters| {
                    // SAFETY: the node is of the graph that the executable was made of, and the driver copies the
                    // parameters; launches that are under way keep theirs.
                    unsafe { sys::cuGraphExecKernelNodeSetParams_v2(graph.exec, *node, parameters) }
                }),
                Work::Copy(bytes) => {
                    let (copy, of) = (copied(&command.words, *bytes), self.context.raw());
                    // SAFETY: the node is of the graph that the executable was made of, and the driver copies the parameters;
                    // the copy is of as many bytes in the same context.
                    unsafe { sys::cuGraphExecMemcpyNodeSetParams(graph.exec, *node, &copy, of) }
                }
                Work::Clear(bytes) => {
                    let (clear, of) = (cleared(&command.words, *bytes), self.context.raw());
                    // SAFETY: the node is of the graph that the executable was made of, and the driver copies the parameters.
                    unsafe { sys::cuGraphExecMemsetNodeSetParams(graph.exec, *node, &clear, of) }
                }
                library => {
                    let child = Child::of(self.context, library, &command.words)?;
                    // SAFETY: the node is of the graph that the executable was made of, and the driver copies the parameters;
                    // the child is of the same call, so of the same nodes.
                    unsafe { sys::cuGraphExecChildGraphNodeSetParams(graph.exec, *node, child.0) }
                }
            }
            .result()
            .map_err(error())?;
        }
        Ok(())
    }
}

/// Calls the driver with a kernel's parameters, whose arguments are one structure.
fn with_parameters(
    command: &Command,
    call: impl FnOnce(*const sys::CUDA_KERNEL_NODE_PARAMS) -> sys::CUresult,
) -> sys::CUresult {
    let Work::Kernel {
        function,
        blocks,
        threads,
        shared,
        ..
    } = command.work
    else {
        return sys::CUresult::CUDA_ERROR_INVALID_VALUE;
    };
    let mut arguments: *mut c_void = command.words.as_ptr().cast_mut().cast();
    let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
        func: function.0,
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        kernelParams: ptr::from_mut(&mut arguments),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    };
    call(&parameters)
}

/// A copy within the device from the second of these addresses to the first.
fn copied(words: &[u64], bytes: usize) -> sys::CUDA_MEMCPY3D {
    let device = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: device,
        srcHost: ptr::null(),
        srcDevice: words[1],
        srcArray: ptr::null_mut(),
        reserved0: ptr::null_mut(),
        srcPitch: bytes,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: device,
        dstHost: ptr::null_mut(),
        dstDevice: words[0],
        dstArray: ptr::null_mut(),
        reserved1: ptr::null_mut(),
        dstPitch: bytes,
        dstHeight: 1,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
    }
}

/// Zeros from this address on.
fn cleared(words: &[u64], bytes: usize) -> sys::CUDA_MEMSET_NODE_PARAMS {
    sys::CUDA_MEMSET_NODE_PARAMS {
        dst: words[0],
        pitch: 0,
        value: 0,
        elementSize: 1,
        width: bytes,
        height: 1,
    }
}

/// The graph of a library's call.
struct Child(sys::CUgraph);

impl Child {
    fn of(context: &Context, work: &Work, words: &[u64]) -> Result<Child> {
        let error = || failed(context.index(), "capturing a library's call");
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let capture = context.capture.lock();
        let stream = capture.0;
        context.bind()?;
        // SAFETY: nothing else is captured on the stream while its lock is held.
        unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }
            .result()
            .map_err(error())?;
        let done = match work {
            Work::Product(request) => context
                .blas()
                .and_then(|blas| blas.lock().run(context, request, words, stream)),
            Work::Convolution(form) => context
                .dnn()
                .and_then(|dnn| dnn.lock().run(context, form, words, stream)),
            Work::Kernel { .. } | Work::Copy(_) | Work::Clear(_) => {
                Err(Error::internal("a node of its own is no library's call"))
            }
        };
        let mut graph = ptr::null_mut();
        // SAFETY: the capture was begun above, and ends also when the call failed.
        let ended = unsafe { sys::cuStreamEndCapture(stream, &mut graph) }.result();
        let child = Child(graph);
        done?;
        ended.map_err(error())?;
        Ok(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the graph is ours, and was copied where it is needed. A failure means that the context is lost.
            let _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Without the context everything of it is gone.
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: both are ours; launches that are under way finish. A failure means that the context is lost.
        unsafe {
            if !self.exec.is_null() {
                let _ = sys::cuGraphExecDestroy(self.exec);
            }
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capture({} commands)", self.commands.len())
    }
}
