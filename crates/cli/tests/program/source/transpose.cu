// A transposed copy through a tile in shared memory, with the barrier that a reader forgets first left out.

template <typename T>
__global__ void transpose(const T* in, T* out) {
    constexpr int N = 32;
    __shared__ T tile[N][N + 1];
#pragma unroll
    for (int y = threadIdx.y; y < N; y += 8) {
        tile[y][threadIdx.x] = in[y * N + threadIdx.x];
    }
    // __syncthreads() is missing here.
#pragma unroll
    for (int y = threadIdx.y; y < N; y += 8) {
        out[y * N + threadIdx.x] = tile[threadIdx.x][y];
    }
}

template __global__ void transpose<float>(const float*, float*);

__device__ __forceinline__ float doubled(const float* values, unsigned i) {
    return 2.0f * values[i];
}

// Reads one element too many: thread 64 of a launch for 64 elements.
__global__ void overrun(const float* values, float* out, unsigned n) {
    const unsigned i = threadIdx.x;
    if (i <= n) out[i % n] = doubled(values, i);
}

__global__ void gives_up(int code) {
    if (code != 0) {
        __trap();
    }
}
