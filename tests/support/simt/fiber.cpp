#include "support/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define BRAZE_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRAZE_SIMT_ASAN 1
#endif
#endif
#ifdef BRAZE_SIMT_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef BRAZE_SIMT_SWITCH
// Saves the registers that a called function keeps, and where they are; then the same backwards on
// the other stack. The jump instead of a return is predicted by where it goes most often.
extern "C" {
void braze_simt_switch(void** from, void* to);
void braze_simt_resume();
}
asm(R"(
.text
.p2align 4
.globl braze_simt_switch
.hidden braze_simt_switch
.type braze_simt_switch, @function
braze_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
.globl braze_simt_resume
.hidden braze_simt_resume
braze_simt_resume:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size braze_simt_switch, .-braze_simt_switch
)");
#endif

namespace braze::simt {

namespace {

std::size_t page_bytes() {
  static const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kPage;
}

constexpr std::size_t kStacksInChunk = 32;

}  // namespace

#ifdef BRAZE_SIMT_SWITCH
void* resume_address() { return reinterpret_cast<void*>(&braze_simt_resume); }
void leaving_for([[maybe_unused]] Fiber& to) {
#ifdef BRAZE_SIMT_ASAN
  __sanitizer_start_switch_fiber(nullptr, to.stack, to.bytes);
#endif
}
#endif

Fiber Fiber::this_thread() {
  Fiber fiber;
#ifdef BRAZE_SIMT_ASAN
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    void* stack = nullptr;
    ::pthread_attr_getstack(&attributes, &stack, &fiber.bytes);
    ::pthread_attr_destroy(&attributes);
    fiber.stack = static_cast<std::byte*>(stack);
  }
#endif
  return fiber;
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
#ifdef BRAZE_SIMT_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
#endif
#ifdef BRAZE_SIMT_SWITCH
  braze_simt_switch(&from.context, to.context);
#else
  ::swapcontext(&from.context, &to.context);
#endif
  fiber_started(from);
}

void fiber_started([[maybe_unused]] Fiber& fiber) {
#ifdef BRAZE_SIMT_ASAN
  __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
#endif
}

void Fiber::reset(void (*start)()) {
  fake_stack = nullptr;
#ifdef BRAZE_SIMT_SWITCH
  // At the start of a function the stack pointer is 8 below a multiple of 16.
  auto** top = reinterpret_cast<void**>(stack + bytes - colour);
  *--top = nullptr;  // no return address
  *--top = reinterpret_cast<void*>(start);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context = top;
#else
  ::getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes - colour;
  context.uc_link = nullptr;
  ::makecontext(&context, start, 0);
#endif
}

StackPool::~StackPool() {
  for (std::byte* chunk : chunks_) ::munmap(chunk, kStacksInChunk * (kBytes + page_bytes()));
}

void StackPool::assign(std::size_t index, Fiber& fiber) {
  const std::size_t page = page_bytes(), pitch = kBytes + page;
  while (chunks_.size() <= index / kStacksInChunk) {
    void* chunk = ::mmap(nullptr, kStacksInChunk * pitch, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk == MAP_FAILED) throw std::bad_alloc();
    chunks_.push_back(static_cast<std::byte*>(chunk));
    for (std::size_t i = 0; i < kStacksInChunk; ++i)
      ::mprotect(chunks_.back() + i * pitch, page, PROT_NONE);
  }
  fiber.stack = chunks_[index / kStacksInChunk] + (index % kStacksInChunk) * pitch + page;
  fiber.bytes = kBytes;
  fiber.colour = index % 32 * 448;  // an odd number of cache lines
}

bool StackPool::is_guard(const void* address) const {
  const std::size_t pitch = kBytes + page_bytes();
  const auto* at = static_cast<const std::byte*>(address);
  for (const std::byte* chunk : chunks_) {
    if (at >= chunk && at < chunk + kStacksInChunk * pitch)
      return static_cast<std::size_t>(at - chunk) % pitch < page_bytes();
  }
  return false;
}

}  // namespace braze::simt
