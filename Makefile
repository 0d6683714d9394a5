# make demo   train a small multimodal model through the nested pipeline and look at what it learned
# make test   build and run every test
# make bench  measure the scheduler, the simulator and the runtime
# make lint   clang-format and clang-tidy
# make fuzz   random steps and broken files against the scheduler and the parsers, for FUZZ_SECONDS each
# make asan, make tsan   the tests under sanitizers
.PHONY: all build dependencies demo test bench fuzz lint format asan tsan clean

BUILD := build/release
OUT := out/emoji

all: build

dependencies:
	@scripts/install-dependencies

build: dependencies
	@cmake --preset release
	@cmake --build --preset release

demo: build
	@$(BUILD)/bin/bigmac train configs/emoji.yaml --output $(OUT)
	@$(BUILD)/bin/bigmac sample $(OUT)/weights.safetensors

test: build
	@ctest --preset release

bench: build
	@taskset -c 0 $(BUILD)/bin/bench_schedule
	@$(BUILD)/bin/bench_plan
	@$(BUILD)/bin/bench_runtime

fuzz: build
	@scripts/fuzz $(BUILD)

lint: build
	@scripts/lint $(BUILD)

format:
	@scripts/lint --fix

asan tsan: dependencies
	@cmake --preset $@
	@cmake --build --preset $@
	@ctest --preset $@

clean:
	rm -rf build out
