//! libibverbs, found while the program runs: a program built with this transport starts on machines that have none, and
//! says what is missing when a file asks for it.
//!
//! Types and constants are those of the crate `ibverbs-sys`, the raw bindings of the crate `ibverbs`. Nothing here names a function of those
//! bindings where code is made of it, so the linker has no reason to note the library as needed; a test looks.
//! Posting and polling are no functions of the library but of the device's driver: see `ibv_context::ops`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;
use libloading::Library;

use super::missing::Missing;
use crate::memory::Origin;

/// The library's name, with the only version of its interface there has been since 2006.
const LIBRARY: &str = "libibverbs.so.1";

/// Where the kernel lists what it offers to user verbs.
const USER_VERBS: &str = "/sys/class/infiniband_verbs";

/// Where the kernel lists RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";

/// As `ibv_reg_dmabuf_mr`.
pub(crate) type RegisterDmabuf =
    unsafe extern "C" fn(*mut ffi::ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ffi::ibv_mr;

// A constant is evaluated and not compiled to code, so this refers to no symbol.
const _: RegisterDmabuf = ffi::ibv_reg_dmabuf_mr;

/// Declares the functions to look up, once: fields, look-up, and proof that each has the type of the bindings.
macro_rules! functions {
    ($($field:ident = $symbol:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions of libibverbs, under their names without `ibv_`. All may be called from any thread; what their
        /// arguments must be, and what they answer, is in their manual pages.
        pub(crate) struct Verbs {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            /// Only since rdma-core 34.
            pub(crate) reg_dmabuf_mr: Option<RegisterDmabuf>,
            origin: Origin,
            /// Never unloaded: the providers that it has loaded in turn do not expect to be.
            _library: ManuallyDrop<Library>,
        }

        $(const _: unsafe extern "C" fn($($argument),*) $(-> $answer)? = ffi::$symbol;)*

        impl Verbs {
            fn of(library: Library) -> Result<Self, Missing> {
                // SAFETY: the type is that of the bindings (constant above), and the library has kept its interface.
                let dmabuf = unsafe { library.get::<RegisterDmabuf>(b"ibv_reg_dmabuf_mr\0") };
                let reg_dmabuf_mr = dmabuf.ok().map(|found| *found);
                Ok(Self {
                    $($field: {
                        let symbol = stringify!($symbol);
                        // SAFETY: as above.
                        let found = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| Missing::Symbol { symbol })?
                    },)*
                    reg_dmabuf_mr,
                    origin: Origin::here(),
                    _library: ManuallyDrop::new(library),
                })
            }
        }
    };
}

functions! {
    fork_init = ibv_fork_init: fn() -> c_int;
    get_device_list = ibv_get_device_list: fn(*mut c_int) -> *mut *mut ffi::ibv_device;
    free_device_list = ibv_free_device_list: fn(*mut *mut ffi::ibv_device);
    open_device = ibv_open_device: fn(*mut ffi::ibv_device) -> *mut ffi::ibv_context;
    close_device = ibv_close_device: fn(*mut ffi::ibv_context) -> c_int;
    query_device = ibv_query_device: fn(*mut ffi::ibv_context, *mut ffi::ibv_device_attr) -> c_int;
    query_port = ibv_query_port: fn(*mut ffi::ibv_context, u8, *mut ffi::_compat_ibv_port_attr) -> c_int;
    query_gid_table = _ibv_query_gid_table:
        fn(*mut ffi::ibv_context, *mut ffi::ibv_gid_entry, usize, u32, usize) -> isize;
    get_async_event = ibv_get_async_event: fn(*mut ffi::ibv_context, *mut ffi::ibv_async_event) -> c_int;
    ack_async_event = ibv_ack_async_event: fn(*mut ffi::ibv_async_event);
    alloc_pd = ibv_alloc_pd: fn(*mut ffi::ibv_context) -> *mut ffi::ibv_pd;
    dealloc_pd = ibv_dealloc_pd: fn(*mut ffi::ibv_pd) -> c_int;
    reg_mr_iova2 = ibv_reg_mr_iova2: fn(*mut ffi::ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ffi::ibv_mr;
    dereg_mr = ibv_dereg_mr: fn(*mut ffi::ibv_mr) -> c_int;
    create_comp_channel = ibv_create_comp_channel: fn(*mut ffi::ibv_context) -> *mut ffi::ibv_comp_channel;
    destroy_comp_channel = ibv_destroy_comp_channel: fn(*mut ffi::ibv_comp_channel) -> c_int;
    create_cq = ibv_create_cq:
        fn(*mut ffi::ibv_context, c_int, *mut c_void, *mut ffi::ibv_comp_channel, c_int) -> *mut ffi::ibv_cq;
    destroy_cq = ibv_destroy_cq: fn(*mut ffi::ibv_cq) -> c_int;
    get_cq_event = ibv_get_cq_event:
        fn(*mut ffi::ibv_comp_channel, *mut *mut ffi::ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events = ibv_ack_cq_events: fn(*mut ffi::ibv_cq, c_uint);
    create_qp = ibv_create_qp: fn(*mut ffi::ibv_pd, *mut ffi::ibv_qp_init_attr) -> *mut ffi::ibv_qp;
    modify_qp = ibv_modify_qp: fn(*mut ffi::ibv_qp, *mut ffi::ibv_qp_attr, c_int) -> c_int;
    destroy_qp = ibv_destroy_qp: fn(*mut ffi::ibv_qp) -> c_int;
    event_type_str = ibv_event_type_str: fn(ffi::ibv_event_type) -> *const c_char;
}

impl Verbs {
    /// Loads the library. What it finds stays loaded until the process ends.
    pub(crate) fn load() -> Result<Arc<Self>, Missing> {
        // SAFETY: libibverbs runs no code of consequence when it is loaded; whoever can put another library in its place
        // can as well replace this program.
        let library = unsafe { Library::new(LIBRARY) };
        let verbs = Self::of(library.map_err(|e| Missing::Library { reason: e.to_string() })?)?;
        // Without it, a process that forks on a kernel before 5.12 (Python's `subprocess` does) would go on writing to
        // copies of its registered pages, while the NIC uses the originals. On newer kernels it does nothing.
        // SAFETY: takes no arguments, and comes before anything was registered through this library by us.
        let refused = unsafe { (verbs.fork_init)() };
        if refused != 0 {
            let reason = io::Error::from_raw_os_error(refused);
            tracing::warn!(%reason, "libibverbs cannot protect registered memory from fork: fork only before this");
        }
        Ok(Arc::new(verbs))
    }

    /// The devices of this machine.
    pub(crate) fn devices(self: &Arc<Self>) -> Result<Devices, Missing> {
        let mut count: c_int = 0;
        // SAFETY: a live place for the count.
        let list = unsafe { (self.get_device_list)(&mut count) };
        let reason = io::Error::last_os_error();
        let Some(list) = NonNull::new(list) else {
            return Err(Missing::Kernel { reason: reason.to_string() });
        };
        let devices = Devices { verbs: self.clone(), list, count: usize::try_from(count).unwrap_or(0) };
        if devices.count == 0 && !std::path::Path::new(USER_VERBS).exists() {
            return Err(Missing::Kernel { reason: format!("{USER_VERBS} does not exist") });
        }
        Ok(devices)
    }

    /// The process that loaded it. What was made in it is not taken down in a child: the kernel's objects are the parent's.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// The name of an event, for people.
    pub(crate) fn event_name(&self, event: ffi::ibv_event_type) -> String {
        // SAFETY: answers a text with static life for any number.
        text(unsafe { (self.event_type_str)(event) })
    }
}

/// A text of the library.
fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the library's texts end with 0 and live as long as it does.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// The device list, freed when dropped.
pub(crate) struct Devices {
    verbs: Arc<Verbs>,
    list: NonNull<*mut ffi::ibv_device>,
    count: usize,
}

impl Devices {
    /// Name and device each. Devices are valid as long as the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, *mut ffi::ibv_device)> + '_ {
        (0..self.count).map(|at| {
            // SAFETY: the list has `count` devices, each of which begins with its names.
            let device = unsafe { *self.list.as_ptr().add(at) };
            // SAFETY: as above; the name is an array in the device that ends with 0.
            (text(unsafe { (*device).name.as_ptr() }), device)
        })
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // SAFETY: from `get_device_list`, freed once.
        unsafe { (self.verbs.free_device_list)(self.list.as_ptr()) };
    }
}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verbs").finish_non_exhaustive()
    }
}
