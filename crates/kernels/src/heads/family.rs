//! Plans of heads: which kernel, how many elements a thread takes at once.

use warpfold_device::LaunchConfig;

use super::{Cache, Heads, MAX_UNITS, Norms, Problem, Queries, Rotary, Source, lanes, turn::HeadTurn, units};
use super::{Pairs, lanes::LaneArgs, units::UnitArgs};
use crate::plan::{Family, Plan, Planned, Planner, Step, TensorSpec, grid_size};
use crate::{Error, ErrorKind, Shipped};

impl Family for Heads {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        match &problem.source {
            Source::Product { product, queries, norms } => {
                let parts = (problem.rotary.as_ref(), problem.cache.as_ref());
                let (Some(rotary), Some(cache)) = parts else { unreachable!("the problem was checked") };
                plan_product(problem, [product, queries], norms.as_ref(), (rotary, cache), planner)
            }
            Source::Tensors { queries, keys_and_values } => {
                plan_tensors(problem, queries.as_ref(), keys_and_values.as_ref(), planner)
            }
        }
    }
}

/// Elements that a thread takes at once: a divisor of all `parts`, and as many as are contiguous
/// and aligned in every tensor.
fn width_of(tensors: &[&TensorSpec], parts: &[u64], most: u64) -> u32 {
    let fits = |width: &u64| {
        parts.iter().all(|part| part.is_multiple_of(*width))
            && tensors.iter().all(|tensor| {
                let (inner, outer) = tensor.layout.strides().split_last().expect("heads and tables have elements");
                *inner == 1
                    && outer.iter().all(|stride| stride % *width as isize == 0)
                    && tensor.alignment().is_multiple_of((width * tensor.dtype.bytes()).min(16))
            })
    };
    [8_u64, 4, 2].into_iter().filter(|width| *width <= most).find(fits).unwrap_or(1) as u32
}

fn size(tensor: &TensorSpec, dim: usize) -> u64 {
    tensor.layout.shape()[dim] as u64
}

fn within_units(units: u64) -> Result<u32, Error> {
    if units > MAX_UNITS {
        return Err(ErrorKind::TooLarge { what: "heads", size: units, limit: MAX_UNITS }.into());
    }
    Ok(units as u32)
}

fn plan_tensors(
    problem: &Problem,
    queries: Option<&Queries>,
    new: Option<&[TensorSpec; 2]>,
    planner: &Planner<'_>,
) -> Result<Plan, Error> {
    let Problem { rotary, cache, .. } = problem;
    let (dtype, head_dim) = problem.heads();
    let query_specs = match queries {
        Some(Queries::InPlace(both)) => vec![both],
        Some(Queries::Copied(both)) => both.iter().collect(),
        None => vec![],
    };
    let mut tensors = query_specs.clone();
    tensors.extend(new.into_iter().flatten());
    tensors.extend(cache.iter().flat_map(|cache| &cache.pages));
    tensors.extend(rotary.iter().flat_map(|rotary| &rotary.tables));
    let (pairs, dim) = rotary.as_ref().map_or((Pairs::Halves, 0), |rotary| (rotary.pairs, rotary.dim));
    let value_dim = new.map_or(0, |[_, values]| size(values, 2));
    let width = width_of(&tensors, &[dim / 2, head_dim - dim, value_dim], 8);
    let turn = HeadTurn { pairs, head_dim: head_dim as u32, rotary_dim: dim as u32, width };

    // Units of a token: keys, then values, then queries.
    let heads = |tensor: &TensorSpec| size(tensor, tensor.layout.rank() - 2);
    let of_keys = new.map_or(0, |[keys, _]| heads(keys) * u64::from(turn.units()));
    let of_values = new.map_or(0, |[_, values]| heads(values) * (value_dim / u64::from(width)));
    let of_queries = query_specs.first().map_or(0, |queries| heads(queries) * u64::from(turn.units()));
    let tokens: u64 = match (new, query_specs.first()) {
        (Some([keys, _]), _) => size(keys, 0),
        (None, Some(queries)) => (0..queries.layout.rank() - 2).map(|dim| size(queries, dim)).product(),
        (None, None) => 0,
    };
    let of_token = of_keys + of_values + of_queries;

    let mut plan = Plan::new("heads").choice(format_args!("{width} elements per thread"));
    let args = UnitArgs::<Planned> {
        queries: match queries {
            Some(Queries::Copied(both)) => Some(plan.read("the queries", &both[0])),
            _ => None,
        },
        keys: new.map(|[keys, _]| plan.read("the keys", keys)),
        values: new.map(|[_, values]| plan.read("the values", values)),
        slots: cache.as_ref().map(|cache| plan.read("the slots", &cache.slots).into()),
        positions: rotary.as_ref().and_then(|rotary| Some(plan.read("the positions", rotary.positions.as_ref()?))),
        cosines: rotary.as_ref().map(|rotary| plan.read("the cosines", &rotary.tables[0])),
        sines: rotary.as_ref().map(|rotary| plan.read("the sines", &rotary.tables[1])),
        results: query_specs.last().map(|queries| plan.write("the queries", queries)),
        k_pages: cache.as_ref().map(|cache| plan.write("the pages of keys", &cache.pages[0])),
        v_pages: cache.as_ref().map(|cache| plan.write("the pages of values", &cache.pages[1])),
        scales: cache.as_ref().map_or([1.0; 2], |cache| cache.scale_bits.map(f32::from_bits)),
        num_slots: problem.num_slots() as u32,
        units: within_units(tokens.saturating_mul(of_token))?,
        of_token: of_token as u32,
        keys_end: of_keys as u32,
        values_end: (of_keys + of_values) as u32,
    };
    if tokens * of_token == 0 {
        return Ok(plan);
    }
    let config = units::UnitsConfig {
        turn,
        dtype,
        write: cache.as_ref().map(|Cache { slots, pages, scale_bits }| units::WriteConfig {
            value_dim: value_dim as u32,
            cache: pages[0].dtype,
            slots: slots.dtype,
            scaled: scale_bits.map(|bits| f32::from_bits(bits) != 1.0),
        }),
        rotary: rotary.as_ref().map(|Rotary { tables, positions, .. }| {
            (tables[0].dtype, positions.as_ref().map(|positions| positions.dtype))
        }),
        queries: queries.map(|queries| units::QueryConfig {
            in_place: matches!(queries, Queries::InPlace(_)),
            token_dims: query_specs[0].layout.rank() - 2,
            strided: query_specs.iter().any(|queries| queries.layout.strides().last() != Some(&1)),
        }),
    };
    let launch = LaunchConfig::new(grid_size((tokens * of_token).div_ceil(units::BLOCK.into()))?, units::BLOCK);
    Ok(plan.step(Step::new(planner.kernel(config, units::kernel_of), launch).with(args)?))
}

fn plan_product(
    problem: &Problem,
    [product, queries]: [&TensorSpec; 2],
    norms: Option<&Norms>,
    (rotary, cache): (&Rotary, &Cache),
    planner: &Planner<'_>,
) -> Result<Plan, Error> {
    let (dtype, head_dim) = problem.heads();
    let mut tensors = vec![product, queries, &cache.pages[0], &cache.pages[1], &rotary.tables[0], &rotary.tables[1]];
    tensors.extend(norms.iter().flat_map(|norms| &norms.scales));
    let config = lanes::LanesConfig {
        dtype,
        lists: cache.slots.dtype,
        head_dim: head_dim as u32,
        width: width_of(&tensors, &[head_dim / 2], 16 / dtype.bytes()),
        normed: norms.is_some(),
    };
    let [tokens, of_token] = [0, 1].map(|dim| size(product, dim));
    let (query_heads, kv_heads) = (size(queries, 1), size(&cache.pages[0], 2));

    let mut plan = Plan::new("heads").choice(format_args!("{} elements per lane", config.width));
    let mut read = |name, tensor: &TensorSpec| plan.read(name, tensor);
    let product = read("the product", product);
    let slots = read("the slots", &cache.slots).into();
    let positions = rotary.positions.as_ref().map(|positions| read("the positions", positions).into());
    let [cosines, sines] = [("the cosines", 0), ("the sines", 1)].map(|(name, i)| read(name, &rotary.tables[i]));
    let mut scales = |name, i: usize| norms.map(|norms| read(name, &norms.scales[i]).into());
    let args = LaneArgs::<Planned> {
        product,
        slots,
        positions: positions.expect("the problem was checked"),
        cosines,
        sines: sines.into(),
        q_scales: scales("the scales of queries", 0),
        k_scales: scales("the scales of keys", 1),
        queries: plan.write("the queries", queries).into(),
        k_pages: plan.write("the pages of keys", &cache.pages[0]),
        v_pages: plan.write("the pages of values", &cache.pages[1]).into(),
        eps: norms.map_or(0.0, |norms| f32::from_bits(norms.eps_bits)),
        heads: within_units(tokens.saturating_mul(32 * of_token)).map(|_| (tokens * of_token) as u32)?,
        of_token: of_token as u32,
        keys: query_heads as u32,
        values: (query_heads + kv_heads) as u32,
        num_slots: problem.num_slots() as u32,
    };
    if tokens * of_token * head_dim == 0 {
        return Ok(plan);
    }
    let blocks = (tokens * of_token).div_ceil(config.heads().into());
    let launch = LaunchConfig::new(grid_size(blocks)?, units::BLOCK);
    Ok(plan.step(Step::new(planner.kernel(config, lanes::kernel_of), launch).with(args)?))
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    Shipped::each(units::kernels().into_iter().chain(lanes::kernels()))
}
