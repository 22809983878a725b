"""A fused linear layer for Hopper in CuTe DSL: TMA loads, wgmma, bias and activation in registers, TMA store.

One warp loads tiles of x and w into a ring of stages; two warpgroups multiply, add the bias, apply the
activation, and stage their tile of y in shared memory for TMA. Every block computes one tile, and
N must be a multiple of the tile's. Importing this needs the package nvidia-cutlass-dsl.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# The package is there on machines with a GPU only, and its decorators have no types.

import cutlass
from cutlass import cute, pipeline, utils
from cutlass.cute.nvgpu import cpasync, warp, warpgroup
from cutlass.utils import hopper_helpers

TILE_M, TILE_N, TILE_K = 128, 256, 64
STAGES = 4
PART_N = 64
"""Columns of y that one copy to memory takes: 128 bytes, as wide as the swizzle of shared memory."""

LOADERS, MULTIPLIERS = 128, 256
"""Threads of each role: whole warpgroups, since registers are handed out by warpgroup."""

ELEMENT = cutlass.BFloat16


def gelu(v):
    return 0.5 * v * (1.0 + cute.math.erf(v * 0.7071067811865476))


def silu(v):
    return v / (1.0 + cute.math.exp(-v))


def tanh(v):
    return cute.math.tanh(v)


def square(v):
    return v * v


ACTIVATIONS = {"gelu": gelu, "silu": silu, "tanh": tanh, "square": square}


@cute.kernel
def linear_kernel(
    load_x: cute.CopyAtom,
    x: cute.Tensor,
    load_w: cute.CopyAtom,
    w: cute.Tensor,
    store_y: cute.CopyAtom,
    y: cute.Tensor,
    b: cute.Tensor,
    mma: cute.TiledMma,
    layout_x: cute.ComposedLayout,
    layout_w: cute.ComposedLayout,
    layout_y: cute.ComposedLayout,
    activation: cutlass.Constexpr,
):
    """One tile of y = activation(x wT + b). `layout_*` are of shared memory, x, w and y are TMA's maps."""
    thread, _, _ = cute.arch.thread_idx()
    wave = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_m, tile_n, _ = cute.arch.block_idx()
    memory = utils.SmemAllocator()
    barriers = memory.allocate_array(cutlass.Int64, 2 * STAGES)
    stages_x = memory.allocate_tensor(ELEMENT, layout_x.outer, 1024, layout_x.inner)
    stages_w = memory.allocate_tensor(ELEMENT, layout_w.outer, 1024, layout_w.inner)
    # The tile of y takes the place of those of x, which are as large together and done with by then.
    staged_y = cute.make_tensor(
        cute.recast_ptr(stages_x.iterator, layout_y.inner, dtype=ELEMENT), layout_y.outer
    )
    stage_bytes = (TILE_M + TILE_N) * TILE_K * ELEMENT.width // 8
    ring = pipeline.PipelineTmaAsync.create(
        barrier_storage=barriers,
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, MULTIPLIERS // 32),
        tx_count=stage_bytes,
    )

    tiles_x = cute.local_tile(x, (TILE_M, TILE_K), (tile_m, None))
    tiles_w = cute.local_tile(w, (TILE_N, TILE_K), (tile_n, None))
    one = cute.make_layout(1)
    to_x, from_x = cpasync.tma_partition(
        load_x, 0, one, cute.group_modes(stages_x, 0, 2), cute.group_modes(tiles_x, 0, 2)
    )
    to_w, from_w = cpasync.tma_partition(
        load_w, 0, one, cute.group_modes(stages_w, 0, 2), cute.group_modes(tiles_w, 0, 2)
    )
    steps = cute.size(tiles_x, mode=[2])

    if thread < LOADERS:
        cute.arch.warpgroup_reg_dealloc(40)
        if wave == 0:
            filling = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
            for step in cutlass.range(steps, unroll=1):
                ring.producer_acquire(filling)
                full = ring.producer_get_barrier(filling)
                cute.copy(load_x, from_x[(None, step)], to_x[(None, filling.index)], tma_bar_ptr=full)
                cute.copy(load_w, from_w[(None, step)], to_w[(None, filling.index)], tma_bar_ptr=full)
                filling.advance()
            ring.producer_tail(filling)
    else:
        cute.arch.warpgroup_reg_alloc(232)
        mine = thread - LOADERS
        part = mma.get_slice(cute.arch.make_warp_uniform(mine // 128) * 128)
        a = mma.make_fragment_A(part.partition_A(stages_x))
        c = mma.make_fragment_B(part.partition_B(stages_w))
        tile_y = cute.local_tile(y, (TILE_M, TILE_N), (tile_m, tile_n))
        sums = cute.make_rmem_tensor(part.partition_C(tile_y).shape, cutlass.Float32)
        reading = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        freeing = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        for step in cutlass.range(steps, unroll=1):
            ring.consumer_wait(reading)
            warpgroup.fence()
            for k in cutlass.range_constexpr(cute.size(a, mode=[2])):
                slot = (None, None, k, reading.index)
                cute.gemm(mma, sums, a[slot], c[slot], sums)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            reading.advance()
            # One product stays under way; what the one before it has read is free.
            if step > 0:
                warpgroup.wait_group(1)
                ring.consumer_release(freeing)
                freeing.advance()
        warpgroup.wait_group(0)
        ring.consumer_release(freeing)

        columns = cute.make_tensor(b.iterator, cute.make_layout(y.shape, stride=(0, 1)))
        bias = part.partition_C(cute.local_tile(columns, (TILE_M, TILE_N), (tile_m, tile_n)))
        added = cute.make_rmem_tensor(bias.shape, ELEMENT)
        cute.autovec_copy(bias, added)

        matrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), ELEMENT)
        copy = cute.make_tiled_copy_S(matrix, cute.make_tiled_copy_C_atom(matrix, mma))
        lane = copy.get_slice(mine)
        targets = lane.partition_D(staged_y)
        shape = cute.shape(lane.partition_S(staged_y))[:3]
        all_sums, all_added = copy.retile(sums), copy.retile(added)
        values = cute.make_rmem_tensor(shape, cutlass.Float32)
        rounded = cute.make_rmem_tensor(shape, ELEMENT)
        # Both warpgroups are done with reading x.
        cute.arch.barrier(barrier_id=1, number_of_threads=MULTIPLIERS)
        for i in cutlass.range_constexpr(TILE_N // PART_N):
            for v in cutlass.range_constexpr(cute.size(values)):
                at = i * cute.size(values) + v
                values[v] = all_sums[at] + all_added[at].to(cutlass.Float32)
            rounded.store(activation(values.load()).to(ELEMENT))
            cute.copy(copy, rounded, targets[(None, None, None, i)])
        cute.arch.fence_view_async_shared()
        cute.arch.barrier(barrier_id=1, number_of_threads=MULTIPLIERS)
        if wave == LOADERS // 32:
            sources, places = cpasync.tma_partition(
                store_y,
                0,
                one,
                cute.group_modes(staged_y, 0, 2),
                cute.zipped_divide(tile_y, (TILE_M, PART_N)),
            )
            for i in cutlass.range_constexpr(TILE_N // PART_N):
                cute.copy(store_y, sources[(None, i)], places[(None, (0, i))])
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def linear(
    x: cute.Tensor,
    w: cute.Tensor,
    b: cute.Tensor,
    y: cute.Tensor,
    stream,
    activation: cutlass.Constexpr,
):
    """y = activation(x wT + b) for bf16 tensors x [M, K], w [N, K], b [N], y [M, N], all row-major."""
    rows = utils.LayoutEnum.ROW_MAJOR
    tile = (TILE_M, TILE_N, TILE_K)
    layout_x = hopper_helpers.make_smem_layout_a(rows, tile, ELEMENT, STAGES)
    layout_w = hopper_helpers.make_smem_layout_b(rows, tile, ELEMENT, STAGES)
    layout_y = hopper_helpers.make_smem_layout_epi(ELEMENT, rows, (TILE_M, PART_N), TILE_N // PART_N)
    along_k = warpgroup.OperandMajorMode.K
    mma = hopper_helpers.make_trivial_tiled_mma(
        ELEMENT, ELEMENT, along_k, along_k, cutlass.Float32, (2, 1, 1), (64, TILE_N)
    )
    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    first = (None, None, 0)
    load_x, map_x = cpasync.make_tiled_tma_atom(load, x, cute.slice_(layout_x, first), (TILE_M, TILE_K))
    load_w, map_w = cpasync.make_tiled_tma_atom(load, w, cute.slice_(layout_w, first), (TILE_N, TILE_K))
    store_y, map_y = cpasync.make_tiled_tma_atom(store, y, cute.slice_(layout_y, first), (TILE_M, PART_N))
    linear_kernel(
        load_x, map_x, load_w, map_w, store_y, map_y, b, mma, layout_x, layout_w, layout_y, activation
    ).launch(
        grid=(cute.ceil_div(y.shape[0], TILE_M), cute.ceil_div(y.shape[1], TILE_N), 1),
        block=(LOADERS + MULTIPLIERS, 1, 1),
        stream=stream,
    )
