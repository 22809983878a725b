//! Call a mucc kernel from Rust through its C functions (`mucc --emit=header` prints their declarations).

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// The memory layout of DLPack's `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

const CPU: i32 = 1;
const CUDA: i32 = 2;

fn tensor(data: *mut c_void, shape: &mut [i64], kind: i32) -> Tensor {
    Tensor {
        data,
        device: Device { kind, id: 0 },
        ndim: shape.len() as i32,
        dtype: DType { code: 2, bits: 32, lanes: 1 },
        shape: shape.as_mut_ptr(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}

extern "C" {
    fn mucc_rms_norm_gain(args: *const Tensor, n: c_int, workspace: *mut c_void, bytes: usize, stream: *mut c_void) -> c_int;
    fn mucc_last_error() -> *const c_char;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The functions of the CUDA driver that this program needs.
struct Driver {
    allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    upload: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    download: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
}

impl Driver {
    /// Open the driver and take the first GPU; None where there is none.
    fn open() -> Option<Driver> {
        unsafe {
            let library = dlopen(c"libcuda.so.1".as_ptr(), 2);
            if library.is_null() {
                return None;
            }
            let find = |name: &CStr| dlsym(library, name.as_ptr());
            let init: unsafe extern "C" fn(u32) -> c_int = std::mem::transmute(find(c"cuInit"));
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                std::mem::transmute(find(c"cuDevicePrimaryCtxRetain"));
            let take: unsafe extern "C" fn(*mut c_void) -> c_int = std::mem::transmute(find(c"cuCtxSetCurrent"));
            let mut context = ptr::null_mut();
            if init(0) != 0 || retain(&mut context, 0) != 0 || take(context) != 0 {
                return None;
            }
            Some(Driver {
                allocate: std::mem::transmute(find(c"cuMemAlloc_v2")),
                upload: std::mem::transmute(find(c"cuMemcpyHtoD_v2")),
                download: std::mem::transmute(find(c"cuMemcpyDtoH_v2")),
            })
        }
    }

    fn upload(&self, host: &[f32]) -> u64 {
        let mut address = 0;
        let bytes = std::mem::size_of_val(host);
        unsafe {
            assert_eq!((self.allocate)(&mut address, bytes), 0, "cuMemAlloc");
            assert_eq!((self.upload)(address, host.as_ptr().cast(), bytes), 0, "cuMemcpyHtoD");
        }
        address
    }

    fn download(&self, address: u64, host: &mut [f32]) {
        let bytes = std::mem::size_of_val(host);
        unsafe { assert_eq!((self.download)(host.as_mut_ptr().cast(), address, bytes), 0, "cuMemcpyDtoH") };
    }
}

/// Run the kernel; Err has what the library says.
fn rms_norm(x: *mut c_void, gain: *mut c_void, y: *mut c_void, rows: i64, columns: i64, kind: i32) -> Result<(), String> {
    let (mut matrix, mut vector, mut result) = ([rows, columns], [columns], [rows, columns]);
    let args = [tensor(x, &mut matrix, kind), tensor(gain, &mut vector, kind), tensor(y, &mut result, kind)];
    match unsafe { mucc_rms_norm_gain(args.as_ptr(), 3, ptr::null_mut(), 0, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(mucc_last_error()) }.to_string_lossy().into_owned()),
    }
}

fn main() {
    let (rows, columns) = (37, 1000);
    let mut x: Vec<f32> = (0..rows * columns).map(|i| (i as f32).sin()).collect();
    let mut gain: Vec<f32> = (0..columns).map(|i| 1.0 + 0.001 * i as f32).collect();
    let mut y = vec![0f32; rows * columns];
    let Some(gpu) = Driver::open() else {
        // What the library says of memory that is not the GPU's shows that it was reached.
        let (x, gain, y) = (x.as_mut_ptr().cast(), gain.as_mut_ptr().cast(), y.as_mut_ptr().cast());
        let said = rms_norm(x, gain, y, rows as i64, columns as i64, CPU).unwrap_err();
        println!("no GPU; the library answers: {said}");
        return;
    };
    let (on_x, on_gain, on_y) = (gpu.upload(&x), gpu.upload(&gain), gpu.upload(&y));
    rms_norm(on_x as *mut c_void, on_gain as *mut c_void, on_y as *mut c_void, rows as i64, columns as i64, CUDA)
        .unwrap_or_else(|said| panic!("{said}"));
    gpu.download(on_y, &mut y);
    let mut worst = 0f64;
    for (row, out) in x.chunks(columns).zip(y.chunks(columns)) {
        let mean = row.iter().map(|v| (*v as f64).powi(2)).sum::<f64>() / columns as f64;
        for ((v, g), o) in row.iter().zip(&gain).zip(out) {
            worst = worst.max((*o as f64 - *v as f64 / (mean + 1e-5).sqrt() * *g as f64).abs());
        }
    }
    println!("{}: largest error {worst:.1e}", if worst < 1e-4 { "right" } else { "WRONG" });
    std::process::exit((worst >= 1e-4) as i32);
}
