// A vector of floats, in the compilers' own extension: the same source serves every processor.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int W = 16;  // floats in a vector
#else
constexpr int W = 8;
#endif

typedef float lanes __attribute__((vector_size(4 * W)));
typedef int32_t bits __attribute__((vector_size(4 * W)));

inline lanes load(const float *from, int64_t count) {
    lanes x = {};
    if (count >= W) std::memcpy(&x, from, sizeof x);
    else if (count > 0) std::memcpy(&x, from, sizeof(float) * count);
    return x;
}

inline void store(float *to, const lanes &x, int64_t count) {
    if (count >= W) std::memcpy(to, &x, sizeof x);
    else if (count > 0) std::memcpy(to, &x, sizeof(float) * count);
}

// e^x for x <= 0, within two units of the last place; 0 below the smallest normal number.
inline lanes exponential(const lanes &x) {
    const lanes whole = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
    const lanes n = whole - 12582912.0f;
    const lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts
    lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const bits power = ((bits)whole + 127) << 23;  // the integer stands in the low bits
    return x < -87.0f ? lanes{} : p * (lanes)power;  // NaN stays NaN
}

inline bits lane_numbers() {
    bits lane;
    for (int l = 0; l < W; l++) lane[l] = l;
    return lane;
}

// Lane l is lane index[l] of a, or lane index[l] - W of b. Clang has no such builtin with indices that are no constants;
// it finds the instruction by itself where the loop around is unrolled.
inline lanes shuffle(const lanes &a, const lanes &b, const bits &index) {
#if defined(__clang__)
    lanes x;
#pragma clang loop unroll(full)
    for (int l = 0; l < W; l++) x[l] = index[l] < W ? a[index[l] & (W - 1)] : b[index[l] & (W - 1)];
    return x;
#else
    return __builtin_shuffle(a, b, index);
#endif
}

// Lane l of the result is the sum over all lanes of x[l]: halves are swapped and added, W vectors at once.
inline lanes sums(lanes *x) {
    const bits lane = lane_numbers();
    for (int half = W / 2; half; half /= 2) {
        const bits own = (lane & half) ? lane + W : lane, other = own ^ half;
        for (int i = 0; i < half; i++)
            x[i] = shuffle(x[i], x[i + half], own) + shuffle(x[i], x[i + half], other);
    }
    return x[0];
}

// x[i] lane j becomes x[j] lane i.
inline void transpose(lanes *x) {
    const bits lane = lane_numbers();
    for (int half = W / 2; half; half /= 2) {
        const bits low = (lane & half) ? (lane ^ half) + W : lane, high = (lane & half) ? lane + W : lane ^ half;
        for (int i = 0; i < W; i++)
            if (!(i & half)) {
                const lanes a = x[i], b = x[i + half];
                x[i] = shuffle(a, b, low);
                x[i + half] = shuffle(a, b, high);
            }
    }
}

// Calls work(first, stride) in up to `threads` threads, each to do every stride-th part of the whole.
template <class Work> void in_threads(int64_t threads, double multiplications, const Work &work) {
    constexpr double WORTH = 4e6;  // multiplications that pay for starting a thread
    threads = std::max<int64_t>(1, std::min<int64_t>(threads, multiplications / WORTH));
    std::vector<std::thread> others;
    for (int64_t t = 1; t < threads; t++) others.emplace_back(work, t, threads);
    work(0, threads);
    for (auto &thread : others) thread.join();
}

}  // namespace
