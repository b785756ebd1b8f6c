//! The ways between host and device, from naive to overlapped.

use super::{CHUNKS, Instance, Rung, What};
use crate::Error;

/// The ways in order.
pub const RUNGS: &[Rung] = &[
    Rung {
        name: "pageable",
        changed: "Copies from and to plain memory of the host: the driver goes through a pinned buffer of its own",
        way: pageable,
    },
    Rung {
        name: "pinned",
        changed: "The host's memory is page-locked, so that the copy engine reads and writes it directly",
        way: pinned,
    },
    Rung {
        name: "depth_first",
        changed: "Two streams take the chunks in turn, each chunk's copy, kernel and copy back issued together",
        way: depth_first,
    },
    Rung {
        name: "breadth_first",
        changed: "The same work issued by kind: both copies, both kernels, both copies back; no engine waits for a stream",
        way: breadth_first,
    },
    Rung {
        name: "mapped",
        changed: "No copies: the kernel reads and writes the host's memory over the bus (zero-copy)",
        way: mapped,
    },
    Rung {
        name: "graph",
        changed: "The kernels of all chunks are captured once, and launched as one graph",
        way: graph,
    },
];

fn pageable(all: &mut Instance) -> Result<(), Error> {
    for i in 0..CHUNKS {
        let (chunk, bytes) = (all.chunk(i), 4 * all.chunk(i).len());
        all.note((What::ToDevice, 0, i), bytes, |all, on| {
            Ok(on.copy_from_host(&mut all.data[i], &all.input[chunk.clone()])?)
        })?;
        all.wait();
        kernel(all, 0, i)?;
        all.note((What::ToHost, 0, i), bytes, |all, on| Ok(on.copy_to_host(&all.data[i], &mut all.output[chunk])?))?;
        all.wait();
    }
    Ok(())
}

fn to_device(all: &mut Instance, stream: usize, i: usize) -> Result<(), Error> {
    let chunk = all.chunk(i);
    all.note((What::ToDevice, stream, i), 4 * chunk.len(), |all, on| {
        Ok(on.copy_from_host_async(&mut all.data[i], all.pinned_in.view(chunk)?)?)
    })
}

fn kernel(all: &mut Instance, stream: usize, i: usize) -> Result<(), Error> {
    let (config, len) = (all.config(), all.chunk(i).len() as u32);
    all.note((What::Kernel, stream, i), 0, |all, on| Ok(on.launch(&all.work, config, (&mut all.data[i], len))?))
}

fn to_host(all: &mut Instance, stream: usize, i: usize) -> Result<(), Error> {
    let chunk = all.chunk(i);
    all.note((What::ToHost, stream, i), 4 * chunk.len(), |all, on| {
        Ok(on.copy_to_host_async(&all.data[i], all.pinned_out.view_mut(chunk)?)?)
    })
}

/// Looks at what came back, which waits for it.
fn take(all: &mut Instance) -> Result<(), Error> {
    all.output.copy_from_slice(all.pinned_out.as_slice()?);
    Ok(())
}

fn pinned(all: &mut Instance) -> Result<(), Error> {
    for i in 0..CHUNKS {
        to_device(all, 0, i)?;
        kernel(all, 0, i)?;
        to_host(all, 0, i)?;
    }
    take(all)
}

fn depth_first(all: &mut Instance) -> Result<(), Error> {
    for i in 0..CHUNKS {
        to_device(all, i % 2, i)?;
        kernel(all, i % 2, i)?;
        to_host(all, i % 2, i)?;
    }
    take(all)
}

fn breadth_first(all: &mut Instance) -> Result<(), Error> {
    for pair in (0..CHUNKS).step_by(2) {
        (0..2).try_for_each(|stream| to_device(all, stream, pair + stream))?;
        (0..2).try_for_each(|stream| kernel(all, stream, pair + stream))?;
        (0..2).try_for_each(|stream| to_host(all, stream, pair + stream))?;
    }
    take(all)
}

fn mapped(all: &mut Instance) -> Result<(), Error> {
    let config = all.config();
    for i in 0..CHUNKS {
        let chunk = all.chunk(i);
        all.note((What::Kernel, 0, i), 2 * 4 * chunk.len(), |all, on| {
            let len = chunk.len() as u32;
            Ok(on.launch(&all.work, config, (all.mapped.as_buffer_mut().view_mut(chunk)?, len))?)
        })?;
    }
    all.output = all.mapped.read()?;
    Ok(())
}

fn graph(all: &mut Instance) -> Result<(), Error> {
    let (config, stream) = (all.config(), all.streams[0].clone());
    let chunks: Vec<_> = (0..CHUNKS).map(|i| all.chunk(i)).collect();
    let (graph, ()) = stream.capture(|| -> Result<(), Error> {
        for chunk in chunks {
            let len = chunk.len() as u32;
            stream.launch(&all.work, config, (all.mapped.as_buffer_mut().view_mut(chunk)?, len))?;
        }
        Ok(())
    })?;
    let bytes = 2 * 4 * all.input.len();
    all.note((What::Graph, 0, 0), bytes, |_, _| Ok(graph.launch()?))?;
    all.output = all.mapped.read()?;
    Ok(())
}
