// What a reduction starts from: of no elements, this is the result.
#pragma once

#if defined(__CUDACC_RTC__)  // has neither the header nor the builtin
#define MUCC_INFINITY __builtin_bit_cast(float, 0x7f800000)
#else
#define MUCC_INFINITY __builtin_inff()
#endif

namespace mucc::identity {

constexpr float kSum = 0.0f;
constexpr float kProd = 1.0f;
constexpr float kMax = -MUCC_INFINITY;
constexpr float kMin = MUCC_INFINITY;
constexpr float kAmax = 0.0f;

}  // namespace mucc::identity
