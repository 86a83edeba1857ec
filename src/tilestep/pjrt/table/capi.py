"""PJRT's C layout as ctypes: made by scripts/generate_capi.py from pjrt_layout.txt; do not edit."""

from __future__ import annotations

from ctypes import Structure, Union, c_bool, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

VERSION = (0, 113)

PJRT_Extension_Type_Profiler = 1
PJRT_Extension_Type_Layouts = 4
PJRT_Error_Code_OK = 0
PJRT_Error_Code_CANCELLED = 1
PJRT_Error_Code_UNKNOWN = 2
PJRT_Error_Code_INVALID_ARGUMENT = 3
PJRT_Error_Code_DEADLINE_EXCEEDED = 4
PJRT_Error_Code_NOT_FOUND = 5
PJRT_Error_Code_ALREADY_EXISTS = 6
PJRT_Error_Code_PERMISSION_DENIED = 7
PJRT_Error_Code_RESOURCE_EXHAUSTED = 8
PJRT_Error_Code_FAILED_PRECONDITION = 9
PJRT_Error_Code_ABORTED = 10
PJRT_Error_Code_OUT_OF_RANGE = 11
PJRT_Error_Code_UNIMPLEMENTED = 12
PJRT_Error_Code_INTERNAL = 13
PJRT_Error_Code_UNAVAILABLE = 14
PJRT_Error_Code_DATA_LOSS = 15
PJRT_Error_Code_UNAUTHENTICATED = 16
PJRT_NamedValue_kString = 0
PJRT_NamedValue_kInt64 = 1
PJRT_NamedValue_kInt64List = 2
PJRT_NamedValue_kFloat = 3
PJRT_NamedValue_kBool = 4
PJRT_Buffer_Type_INVALID = 0
PJRT_Buffer_Type_PRED = 1
PJRT_Buffer_Type_S8 = 2
PJRT_Buffer_Type_S16 = 3
PJRT_Buffer_Type_S32 = 4
PJRT_Buffer_Type_S64 = 5
PJRT_Buffer_Type_U8 = 6
PJRT_Buffer_Type_U16 = 7
PJRT_Buffer_Type_U32 = 8
PJRT_Buffer_Type_U64 = 9
PJRT_Buffer_Type_F16 = 10
PJRT_Buffer_Type_F32 = 11
PJRT_Buffer_Type_F64 = 12
PJRT_Buffer_Type_BF16 = 13
PJRT_Buffer_Type_C64 = 14
PJRT_Buffer_Type_C128 = 15
PJRT_Buffer_Type_F8E5M2 = 16
PJRT_Buffer_Type_F8E4M3FN = 17
PJRT_Buffer_Type_F8E4M3B11FNUZ = 18
PJRT_Buffer_Type_F8E5M2FNUZ = 19
PJRT_Buffer_Type_F8E4M3FNUZ = 20
PJRT_Buffer_Type_S4 = 21
PJRT_Buffer_Type_U4 = 22
PJRT_Buffer_Type_TOKEN = 23
PJRT_Buffer_Type_S2 = 24
PJRT_Buffer_Type_U2 = 25
PJRT_Buffer_Type_F8E4M3 = 26
PJRT_Buffer_Type_F8E3M4 = 27
PJRT_Buffer_Type_F8E8M0FNU = 28
PJRT_Buffer_Type_F4E2M1FN = 29
PJRT_Buffer_Type_S1 = 30
PJRT_Buffer_Type_U1 = 31
PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0
PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes = 1
PJRT_HostBufferSemantics_kImmutableZeroCopy = 2
PJRT_HostBufferSemantics_kMutableZeroCopy = 3
PJRT_Buffer_MemoryLayout_Type_Tiled = 0
PJRT_Buffer_MemoryLayout_Type_Strides = 1


class PJRT_Extension_Base(Structure):
    struct_size: int
    type: int
    next: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("type", c_int32),
        ("next", c_void_p),
    )


class PJRT_Api_Version(Structure):
    struct_size: int
    extension_start: int | None
    major_version: int
    minor_version: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("major_version", c_int32),
        ("minor_version", c_int32),
    )


class PJRT_Error_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    error: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("error", c_void_p),
    )


class PJRT_Error_Message_Args(Structure):
    struct_size: int
    extension_start: int | None
    error: int | None
    message: int | None
    message_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("error", c_void_p),
        ("message", c_void_p),
        ("message_size", c_size_t),
    )


class PJRT_Error_FunctionTable(Structure):
    struct_size: int
    instance_size: int
    extension_start: int | None
    destroy: int | None
    message: int | None
    get_code: int | None
    for_each_payload: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("instance_size", c_size_t),
        ("extension_start", c_void_p),
        ("destroy", c_void_p),
        ("message", c_void_p),
        ("get_code", c_void_p),
        ("for_each_payload", c_void_p),
    )


class PJRT_Error(Structure):
    vtable: int | None
    _fields_ = (
        ("vtable", c_void_p),
    )


class PJRT_Error_GetCode_Args(Structure):
    struct_size: int
    extension_start: int | None
    error: int | None
    code: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("error", c_void_p),
        ("code", c_int32),
    )


class PJRT_Error_ForEachPayload_Args(Structure):
    struct_size: int
    extension_start: int | None
    error: int | None
    visitor: int | None
    user_arg: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("error", c_void_p),
        ("visitor", c_void_p),
        ("user_arg", c_void_p),
    )


class _PJRT_NamedValue_Union(Union):
    string_value: int | None
    int64_value: int
    int64_array_value: int | None
    float_value: float
    bool_value: bool
    _fields_ = (
        ("string_value", c_void_p),
        ("int64_value", c_int64),
        ("int64_array_value", c_void_p),
        ("float_value", c_float),
        ("bool_value", c_bool),
    )


class PJRT_NamedValue(Structure):
    struct_size: int
    extension_start: int | None
    name: int | None
    name_size: int
    type: int
    value_size: int
    string_value: int | None
    int64_value: int
    int64_array_value: int | None
    float_value: float
    bool_value: bool
    _anonymous_ = ("u",)
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("name", c_void_p),
        ("name_size", c_size_t),
        ("type", c_int32),
        ("u", _PJRT_NamedValue_Union),
        ("value_size", c_size_t),
    )


class PJRT_Plugin_Initialize_Args(Structure):
    struct_size: int
    extension_start: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
    )


class PJRT_Plugin_Attributes_Args(Structure):
    struct_size: int
    extension_start: int | None
    attributes: int | None
    num_attributes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("attributes", c_void_p),
        ("num_attributes", c_size_t),
    )


class PJRT_Event_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
    )


class PJRT_Event_IsReady_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    is_ready: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
        ("is_ready", c_bool),
    )


class PJRT_Event_Error_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
    )


class PJRT_Event_Await_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
    )


class PJRT_Event_OnReady_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    callback: int | None
    user_arg: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
        ("callback", c_void_p),
        ("user_arg", c_void_p),
    )


class PJRT_Event_Create_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
    )


class PJRT_Event_Set_Args(Structure):
    struct_size: int
    extension_start: int | None
    event: int | None
    error_code: int
    error_message: int | None
    error_message_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("event", c_void_p),
        ("error_code", c_int32),
        ("error_message", c_void_p),
        ("error_message_size", c_size_t),
    )


class PJRT_Memory_FunctionTable(Structure):
    struct_size: int
    extension_start: int | None
    instance_struct_size: int
    get_user_data: int | None
    set_user_data: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("instance_struct_size", c_size_t),
        ("get_user_data", c_void_p),
        ("set_user_data", c_void_p),
    )


class PJRT_Memory(Structure):
    vtable: int | None
    _fields_ = (
        ("vtable", c_void_p),
    )


class PJRT_Client_Create_Args(Structure):
    struct_size: int
    extension_start: int | None
    create_options: int | None
    num_options: int
    kv_get_callback: int | None
    kv_get_user_arg: int | None
    kv_put_callback: int | None
    kv_put_user_arg: int | None
    client: int | None
    kv_try_get_callback: int | None
    kv_try_get_user_arg: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("create_options", c_void_p),
        ("num_options", c_size_t),
        ("kv_get_callback", c_void_p),
        ("kv_get_user_arg", c_void_p),
        ("kv_put_callback", c_void_p),
        ("kv_put_user_arg", c_void_p),
        ("client", c_void_p),
        ("kv_try_get_callback", c_void_p),
        ("kv_try_get_user_arg", c_void_p),
    )


class PJRT_Client_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
    )


class PJRT_Client_PlatformName_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    platform_name: int | None
    platform_name_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("platform_name", c_void_p),
        ("platform_name_size", c_size_t),
    )


class PJRT_Client_ProcessIndex_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    process_index: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("process_index", c_int32),
    )


class PJRT_Client_PlatformVersion_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    platform_version: int | None
    platform_version_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("platform_version", c_void_p),
        ("platform_version_size", c_size_t),
    )


class PJRT_Client_TopologyDescription_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    topology: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("topology", c_void_p),
    )


class PJRT_Client_Devices_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    devices: int | None
    num_devices: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("devices", c_void_p),
        ("num_devices", c_size_t),
    )


class PJRT_Client_AddressableDevices_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    addressable_devices: int | None
    num_addressable_devices: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("addressable_devices", c_void_p),
        ("num_addressable_devices", c_size_t),
    )


class PJRT_Client_LookupDevice_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    id: int
    device: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("id", c_int32),
        ("device", c_void_p),
    )


class PJRT_Client_LookupAddressableDevice_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    local_hardware_id: int
    addressable_device: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("local_hardware_id", c_int32),
        ("addressable_device", c_void_p),
    )


class PJRT_Client_AddressableMemories_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    addressable_memories: int | None
    num_addressable_memories: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("addressable_memories", c_void_p),
        ("num_addressable_memories", c_size_t),
    )


class PJRT_Program(Structure):
    struct_size: int
    extension_start: int | None
    code: int | None
    code_size: int
    format: int | None
    format_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("code", c_void_p),
        ("code_size", c_size_t),
        ("format", c_void_p),
        ("format_size", c_size_t),
    )


class PJRT_Client_Compile_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    program: int | None
    compile_options: int | None
    compile_options_size: int
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("program", c_void_p),
        ("compile_options", c_void_p),
        ("compile_options_size", c_size_t),
        ("executable", c_void_p),
    )


class PJRT_Client_Load_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    executable: int | None
    compile_options: int | None
    compile_options_size: int
    loaded_executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("executable", c_void_p),
        ("compile_options", c_void_p),
        ("compile_options_size", c_size_t),
        ("loaded_executable", c_void_p),
    )


class PJRT_Client_DefaultDeviceAssignment_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    num_replicas: int
    num_partitions: int
    default_assignment_size: int
    default_assignment: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("num_replicas", c_int32),
        ("num_partitions", c_int32),
        ("default_assignment_size", c_size_t),
        ("default_assignment", c_void_p),
    )


class PJRT_Buffer_MemoryLayout_Tiled(Structure):
    struct_size: int
    extension_start: int | None
    minor_to_major: int | None
    minor_to_major_size: int
    tile_dims: int | None
    tile_dim_sizes: int | None
    num_tiles: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("minor_to_major", c_void_p),
        ("minor_to_major_size", c_size_t),
        ("tile_dims", c_void_p),
        ("tile_dim_sizes", c_void_p),
        ("num_tiles", c_size_t),
    )


class PJRT_Buffer_MemoryLayout_Strides(Structure):
    struct_size: int
    extension_start: int | None
    byte_strides: int | None
    num_byte_strides: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("byte_strides", c_void_p),
        ("num_byte_strides", c_size_t),
    )


class _PJRT_Buffer_MemoryLayout_Union(Union):
    tiled: PJRT_Buffer_MemoryLayout_Tiled
    strides: PJRT_Buffer_MemoryLayout_Strides
    _fields_ = (
        ("tiled", PJRT_Buffer_MemoryLayout_Tiled),
        ("strides", PJRT_Buffer_MemoryLayout_Strides),
    )


class PJRT_Buffer_MemoryLayout(Structure):
    struct_size: int
    extension_start: int | None
    type: int
    tiled: PJRT_Buffer_MemoryLayout_Tiled
    strides: PJRT_Buffer_MemoryLayout_Strides
    _anonymous_ = ("u",)
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("u", _PJRT_Buffer_MemoryLayout_Union),
        ("type", c_int32),
    )


class PJRT_Client_CreateUninitializedBuffer_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    shape_dims: int | None
    shape_num_dims: int
    shape_element_type: int
    shape_layout: int | None
    device: int | None
    memory: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("shape_dims", c_void_p),
        ("shape_num_dims", c_size_t),
        ("shape_element_type", c_int32),
        ("shape_layout", c_void_p),
        ("device", c_void_p),
        ("memory", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Client_CreateErrorBuffer_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    error_code: int
    error_message: int | None
    error_message_size: int
    shape_dims: int | None
    shape_num_dims: int
    shape_element_type: int
    shape_layout: int | None
    memory: int | None
    buffer: int | None
    payload: int | None
    num_payload: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("error_code", c_int32),
        ("error_message", c_void_p),
        ("error_message_size", c_size_t),
        ("shape_dims", c_void_p),
        ("shape_num_dims", c_size_t),
        ("shape_element_type", c_int32),
        ("shape_layout", c_void_p),
        ("memory", c_void_p),
        ("buffer", c_void_p),
        ("payload", c_void_p),
        ("num_payload", c_size_t),
    )


class PJRT_Client_BufferFromHostBuffer_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    data: int | None
    type: int
    dims: int | None
    num_dims: int
    byte_strides: int | None
    num_byte_strides: int
    host_buffer_semantics: int
    device: int | None
    memory: int | None
    device_layout: int | None
    done_with_host_buffer: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("data", c_void_p),
        ("type", c_int32),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("byte_strides", c_void_p),
        ("num_byte_strides", c_size_t),
        ("host_buffer_semantics", c_int32),
        ("device", c_void_p),
        ("memory", c_void_p),
        ("device_layout", c_void_p),
        ("done_with_host_buffer", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Client_CreateViewOfDeviceBuffer_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    device_buffer_ptr: int | None
    dims: int | None
    num_dims: int
    element_type: int
    layout: int | None
    device: int | None
    on_delete_callback: int | None
    on_delete_callback_arg: int | None
    stream: int
    buffer: int | None
    memory: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("device_buffer_ptr", c_void_p),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("element_type", c_int32),
        ("layout", c_void_p),
        ("device", c_void_p),
        ("on_delete_callback", c_void_p),
        ("on_delete_callback_arg", c_void_p),
        ("stream", c_int64),
        ("buffer", c_void_p),
        ("memory", c_void_p),
    )


class PJRT_ShapeSpec(Structure):
    struct_size: int
    extension_start: int | None
    dims: int | None
    num_dims: int
    element_type: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("element_type", c_int32),
    )


class PJRT_DeviceDescription_Id_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    id: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("id", c_int32),
    )


class PJRT_DeviceDescription_ProcessIndex_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    process_index: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("process_index", c_int32),
    )


class PJRT_DeviceDescription_Attributes_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    num_attributes: int
    attributes: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("num_attributes", c_size_t),
        ("attributes", c_void_p),
    )


class PJRT_DeviceDescription_Kind_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    device_kind: int | None
    device_kind_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("device_kind", c_void_p),
        ("device_kind_size", c_size_t),
    )


class PJRT_DeviceDescription_DebugString_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    debug_string: int | None
    debug_string_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("debug_string", c_void_p),
        ("debug_string_size", c_size_t),
    )


class PJRT_DeviceDescription_ToString_Args(Structure):
    struct_size: int
    extension_start: int | None
    device_description: int | None
    to_string: int | None
    to_string_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device_description", c_void_p),
        ("to_string", c_void_p),
        ("to_string_size", c_size_t),
    )


class PJRT_Device_GetDescription_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    device_description: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("device_description", c_void_p),
    )


class PJRT_Device_IsAddressable_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    is_addressable: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("is_addressable", c_bool),
    )


class PJRT_Device_LocalHardwareId_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    local_hardware_id: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("local_hardware_id", c_int32),
    )


class PJRT_Device_AddressableMemories_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    memories: int | None
    num_memories: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("memories", c_void_p),
        ("num_memories", c_size_t),
    )


class PJRT_Device_DefaultMemory_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    memory: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("memory", c_void_p),
    )


class PJRT_Device_MemoryStats_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    bytes_in_use: int
    peak_bytes_in_use: int
    peak_bytes_in_use_is_set: bool
    num_allocs: int
    num_allocs_is_set: bool
    largest_alloc_size: int
    largest_alloc_size_is_set: bool
    bytes_limit: int
    bytes_limit_is_set: bool
    bytes_reserved: int
    bytes_reserved_is_set: bool
    peak_bytes_reserved: int
    peak_bytes_reserved_is_set: bool
    bytes_reservable_limit: int
    bytes_reservable_limit_is_set: bool
    largest_free_block_bytes: int
    largest_free_block_bytes_is_set: bool
    pool_bytes: int
    pool_bytes_is_set: bool
    peak_pool_bytes: int
    peak_pool_bytes_is_set: bool
    peak_allocated_bytes: int
    peak_allocated_bytes_is_set: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("bytes_in_use", c_int64),
        ("peak_bytes_in_use", c_int64),
        ("peak_bytes_in_use_is_set", c_bool),
        ("num_allocs", c_int64),
        ("num_allocs_is_set", c_bool),
        ("largest_alloc_size", c_int64),
        ("largest_alloc_size_is_set", c_bool),
        ("bytes_limit", c_int64),
        ("bytes_limit_is_set", c_bool),
        ("bytes_reserved", c_int64),
        ("bytes_reserved_is_set", c_bool),
        ("peak_bytes_reserved", c_int64),
        ("peak_bytes_reserved_is_set", c_bool),
        ("bytes_reservable_limit", c_int64),
        ("bytes_reservable_limit_is_set", c_bool),
        ("largest_free_block_bytes", c_int64),
        ("largest_free_block_bytes_is_set", c_bool),
        ("pool_bytes", c_int64),
        ("pool_bytes_is_set", c_bool),
        ("peak_pool_bytes", c_int64),
        ("peak_pool_bytes_is_set", c_bool),
        ("peak_allocated_bytes", c_int64),
        ("peak_allocated_bytes_is_set", c_bool),
    )


class PJRT_Device_ClearMemoryStats_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
    )


class PJRT_Device_GetAttributes_Args(Structure):
    struct_size: int
    extension_start: int | None
    device: int | None
    attributes: int | None
    num_attributes: int
    device_attributes: int | None
    attributes_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("device", c_void_p),
        ("attributes", c_void_p),
        ("num_attributes", c_size_t),
        ("device_attributes", c_void_p),
        ("attributes_deleter", c_void_p),
    )


class PJRT_Memory_Id_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    id: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("id", c_int32),
    )


class PJRT_Memory_Kind_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    kind: int | None
    kind_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("kind", c_void_p),
        ("kind_size", c_size_t),
    )


class PJRT_Memory_Kind_Id_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    kind_id: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("kind_id", c_int32),
    )


class PJRT_Memory_DebugString_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    debug_string: int | None
    debug_string_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("debug_string", c_void_p),
        ("debug_string_size", c_size_t),
    )


class PJRT_Memory_ToString_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    to_string: int | None
    to_string_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("to_string", c_void_p),
        ("to_string_size", c_size_t),
    )


class PJRT_Memory_AddressableByDevices_Args(Structure):
    struct_size: int
    extension_start: int | None
    memory: int | None
    devices: int | None
    num_devices: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("memory", c_void_p),
        ("devices", c_void_p),
        ("num_devices", c_size_t),
    )


class PJRT_ExecuteContext_Create_Args(Structure):
    struct_size: int
    extension_start: int | None
    context: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("context", c_void_p),
    )


class PJRT_ExecuteContext_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    context: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("context", c_void_p),
    )


class PJRT_Executable_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
    )


class PJRT_LoadedExecutable_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
    )


class PJRT_LoadedExecutable_GetExecutable_Args(Structure):
    struct_size: int
    extension_start: int | None
    loaded_executable: int | None
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("loaded_executable", c_void_p),
        ("executable", c_void_p),
    )


class PJRT_LoadedExecutable_GetDeviceAssignment_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    serialized_bytes: int | None
    serialized_bytes_size: int
    serialized_device_assignment: int | None
    serialized_device_assignment_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("serialized_bytes", c_void_p),
        ("serialized_bytes_size", c_size_t),
        ("serialized_device_assignment", c_void_p),
        ("serialized_device_assignment_deleter", c_void_p),
    )


class PJRT_Executable_Name_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    executable_name: int | None
    executable_name_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("executable_name", c_void_p),
        ("executable_name_size", c_size_t),
    )


class PJRT_Executable_NumReplicas_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_replicas: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_replicas", c_size_t),
    )


class PJRT_Executable_NumPartitions_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_partitions: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_partitions", c_size_t),
    )


class PJRT_LogicalDeviceIds(Structure):
    replica: int
    partition: int
    _fields_ = (
        ("replica", c_int32),
        ("partition", c_int32),
    )


class PJRT_LoadedExecutable_AddressableDevices_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    addressable_devices: int | None
    num_addressable_devices: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("addressable_devices", c_void_p),
        ("num_addressable_devices", c_size_t),
    )


class PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    addressable_device_logical_ids: int | None
    num_addressable_device_logical_ids: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("addressable_device_logical_ids", c_void_p),
        ("num_addressable_device_logical_ids", c_size_t),
    )


class PJRT_Executable_OptimizedProgram_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    program: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("program", c_void_p),
    )


class PJRT_LoadedExecutable_Delete_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
    )


class PJRT_LoadedExecutable_IsDeleted_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    is_deleted: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("is_deleted", c_bool),
    )


class PJRT_ExecuteOptions(Structure):
    struct_size: int
    extension_start: int | None
    send_callbacks: int | None
    recv_callbacks: int | None
    num_send_ops: int
    num_recv_ops: int
    launch_id: int
    non_donatable_input_indices: int | None
    num_non_donatable_input_indices: int
    context: int | None
    call_location: int | None
    num_tasks: int
    task_ids: int | None
    incarnation_ids: int | None
    multi_slice_config: int | None
    use_major_to_minor_data_layout_for_callbacks: bool
    hlo_output_callbacks: int | None
    num_hlo_output_callbacks: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("send_callbacks", c_void_p),
        ("recv_callbacks", c_void_p),
        ("num_send_ops", c_size_t),
        ("num_recv_ops", c_size_t),
        ("launch_id", c_int32),
        ("non_donatable_input_indices", c_void_p),
        ("num_non_donatable_input_indices", c_size_t),
        ("context", c_void_p),
        ("call_location", c_void_p),
        ("num_tasks", c_size_t),
        ("task_ids", c_void_p),
        ("incarnation_ids", c_void_p),
        ("multi_slice_config", c_void_p),
        ("use_major_to_minor_data_layout_for_callbacks", c_bool),
        ("hlo_output_callbacks", c_void_p),
        ("num_hlo_output_callbacks", c_size_t),
    )


class PJRT_LoadedExecutable_Execute_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    options: int | None
    argument_lists: int | None
    num_devices: int
    num_args: int
    output_lists: int | None
    device_complete_events: int | None
    execute_device: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("options", c_void_p),
        ("argument_lists", c_void_p),
        ("num_devices", c_size_t),
        ("num_args", c_size_t),
        ("output_lists", c_void_p),
        ("device_complete_events", c_void_p),
        ("execute_device", c_void_p),
    )


class PJRT_Executable_NumOutputs_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_outputs: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_outputs", c_size_t),
    )


class PJRT_Executable_SizeOfGeneratedCodeInBytes_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    size_in_bytes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("size_in_bytes", c_int64),
    )


class PJRT_Executable_Fingerprint_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    executable_fingerprint: int | None
    executable_fingerprint_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("executable_fingerprint", c_void_p),
        ("executable_fingerprint_size", c_size_t),
    )


class PJRT_Executable_GetCostAnalysis_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_properties: int
    properties: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_properties", c_size_t),
        ("properties", c_void_p),
    )


class PJRT_Executable_GetCompiledMemoryStats_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    host_generated_code_size_in_bytes: int
    host_argument_size_in_bytes: int
    host_output_size_in_bytes: int
    host_alias_size_in_bytes: int
    host_temp_size_in_bytes: int
    peak_memory_in_bytes: int
    total_size_in_bytes: int
    total_allocation_bytes: int
    indefinite_allocations: int
    peak_unpadded_heap_bytes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("generated_code_size_in_bytes", c_int64),
        ("argument_size_in_bytes", c_int64),
        ("output_size_in_bytes", c_int64),
        ("alias_size_in_bytes", c_int64),
        ("temp_size_in_bytes", c_int64),
        ("host_generated_code_size_in_bytes", c_int64),
        ("host_argument_size_in_bytes", c_int64),
        ("host_output_size_in_bytes", c_int64),
        ("host_alias_size_in_bytes", c_int64),
        ("host_temp_size_in_bytes", c_int64),
        ("peak_memory_in_bytes", c_int64),
        ("total_size_in_bytes", c_int64),
        ("total_allocation_bytes", c_int64),
        ("indefinite_allocations", c_int64),
        ("peak_unpadded_heap_bytes", c_int64),
    )


class PJRT_Executable_OutputElementTypes_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    output_types: int | None
    num_output_types: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("output_types", c_void_p),
        ("num_output_types", c_size_t),
    )


class PJRT_Executable_OutputDimensions_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_outputs: int
    dims: int | None
    dim_sizes: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_outputs", c_size_t),
        ("dims", c_void_p),
        ("dim_sizes", c_void_p),
    )


class PJRT_Executable_ParameterMemoryKinds_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_parameters: int
    memory_kinds: int | None
    memory_kind_sizes: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_parameters", c_size_t),
        ("memory_kinds", c_void_p),
        ("memory_kind_sizes", c_void_p),
    )


class PJRT_Executable_OutputMemoryKinds_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_outputs: int
    memory_kinds: int | None
    memory_kind_sizes: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_outputs", c_size_t),
        ("memory_kinds", c_void_p),
        ("memory_kind_sizes", c_void_p),
    )


class PJRT_Executable_Serialize_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    serialized_bytes: int | None
    serialized_bytes_size: int
    serialized_executable: int | None
    serialized_executable_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("serialized_bytes", c_void_p),
        ("serialized_bytes_size", c_size_t),
        ("serialized_executable", c_void_p),
        ("serialized_executable_deleter", c_void_p),
    )


class PJRT_Executable_GetCompileOptions_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    serialized_bytes: int | None
    serialized_bytes_size: int
    serialized_compile_options: int | None
    serialized_compile_options_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("serialized_bytes", c_void_p),
        ("serialized_bytes_size", c_size_t),
        ("serialized_compile_options", c_void_p),
        ("serialized_compile_options_deleter", c_void_p),
    )


class PJRT_LoadOptions(Structure):
    struct_size: int
    computation_origin: int | None
    computation_origin_size: int
    multi_slice_config: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("computation_origin", c_void_p),
        ("computation_origin_size", c_size_t),
        ("multi_slice_config", c_void_p),
    )


class PJRT_Executable_DeserializeAndLoad_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    serialized_executable: int | None
    serialized_executable_size: int
    loaded_executable: int | None
    overridden_serialized_compile_options: int | None
    overridden_serialized_compile_options_size: int
    load_options: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("serialized_executable", c_void_p),
        ("serialized_executable_size", c_size_t),
        ("loaded_executable", c_void_p),
        ("overridden_serialized_compile_options", c_void_p),
        ("overridden_serialized_compile_options_size", c_size_t),
        ("load_options", c_void_p),
    )


class PJRT_LoadedExecutable_Fingerprint_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    executable_fingerprint: int | None
    executable_fingerprint_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("executable_fingerprint", c_void_p),
        ("executable_fingerprint_size", c_size_t),
    )


class PJRT_Buffer_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Buffer_ElementType_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    type: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("type", c_int32),
    )


class PJRT_Buffer_Dimensions_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    dims: int | None
    num_dims: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
    )


class PJRT_Buffer_UnpaddedDimensions_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    unpadded_dims: int | None
    num_dims: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("unpadded_dims", c_void_p),
        ("num_dims", c_size_t),
    )


class PJRT_Buffer_DynamicDimensionIndices_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    dynamic_dim_indices: int | None
    num_dynamic_dims: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("dynamic_dim_indices", c_void_p),
        ("num_dynamic_dims", c_size_t),
    )


class PJRT_Buffer_GetMemoryLayout_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    layout: PJRT_Buffer_MemoryLayout
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("layout", PJRT_Buffer_MemoryLayout),
    )


class PJRT_Buffer_ToHostBuffer_Args(Structure):
    struct_size: int
    extension_start: int | None
    src: int | None
    host_layout: int | None
    dst: int | None
    dst_size: int
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("src", c_void_p),
        ("host_layout", c_void_p),
        ("dst", c_void_p),
        ("dst_size", c_size_t),
        ("event", c_void_p),
    )


class PJRT_Buffer_OnDeviceSizeInBytes_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    on_device_size_in_bytes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("on_device_size_in_bytes", c_size_t),
    )


class PJRT_Buffer_Delete_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Buffer_IsDeleted_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    is_deleted: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("is_deleted", c_bool),
    )


class PJRT_Buffer_CopyRawToHost_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    dst: int | None
    offset: int
    transfer_size: int
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("dst", c_void_p),
        ("offset", c_int64),
        ("transfer_size", c_int64),
        ("event", c_void_p),
    )


class PJRT_Buffer_CopyRawToHostFuture_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    offset: int
    transfer_size: int
    event: int | None
    callback_data: int | None
    future_ready_callback: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("offset", c_int64),
        ("transfer_size", c_int64),
        ("event", c_void_p),
        ("callback_data", c_void_p),
        ("future_ready_callback", c_void_p),
    )


class PJRT_Buffer_CopyToDevice_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    dst_device: int | None
    dst_buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("dst_device", c_void_p),
        ("dst_buffer", c_void_p),
    )


class PJRT_Buffer_CopyToMemory_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    dst_memory: int | None
    dst_buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("dst_memory", c_void_p),
        ("dst_buffer", c_void_p),
    )


class PJRT_Buffer_Bitcast_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    element_type: int
    dims: int | None
    num_dims: int
    device_layout: int | None
    out_buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("element_type", c_int32),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("device_layout", c_void_p),
        ("out_buffer", c_void_p),
    )


class PJRT_Buffer_IsOnCpu_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    is_on_cpu: bool
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("is_on_cpu", c_bool),
    )


class PJRT_Buffer_Device_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    device: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("device", c_void_p),
    )


class PJRT_Buffer_Memory_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    memory: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("memory", c_void_p),
    )


class PJRT_Buffer_ReadyEvent_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    event: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("event", c_void_p),
    )


class PJRT_Buffer_UnsafePointer_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    buffer_pointer: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("buffer_pointer", c_size_t),
    )


class PJRT_Buffer_IncreaseExternalReferenceCount_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Buffer_DecreaseExternalReferenceCount_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
    )


class PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    device_memory_ptr: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("device_memory_ptr", c_void_p),
    )


class PJRT_TopologyDescription_Create_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology_name: int | None
    topology_name_size: int
    create_options: int | None
    num_options: int
    topology: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology_name", c_void_p),
        ("topology_name_size", c_size_t),
        ("create_options", c_void_p),
        ("num_options", c_size_t),
        ("topology", c_void_p),
    )


class PJRT_TopologyDescription_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
    )


class PJRT_TopologyDescription_PlatformVersion_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    platform_version: int | None
    platform_version_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("platform_version", c_void_p),
        ("platform_version_size", c_size_t),
    )


class PJRT_TopologyDescription_PlatformName_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    platform_name: int | None
    platform_name_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("platform_name", c_void_p),
        ("platform_name_size", c_size_t),
    )


class PJRT_TopologyDescription_GetDeviceDescriptions_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    descriptions: int | None
    num_descriptions: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("descriptions", c_void_p),
        ("num_descriptions", c_size_t),
    )


class PJRT_TopologyDescription_Serialize_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    serialized_bytes: int | None
    serialized_bytes_size: int
    serialized_topology: int | None
    serialized_topology_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("serialized_bytes", c_void_p),
        ("serialized_bytes_size", c_size_t),
        ("serialized_topology", c_void_p),
        ("serialized_topology_deleter", c_void_p),
    )


class PJRT_TopologyDescription_Deserialize_Args(Structure):
    struct_size: int
    extension_start: int | None
    serialized_topology: int | None
    serialized_topology_size: int
    topology: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("serialized_topology", c_void_p),
        ("serialized_topology_size", c_size_t),
        ("topology", c_void_p),
    )


class PJRT_TopologyDescription_Attributes_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    attributes: int | None
    num_attributes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("attributes", c_void_p),
        ("num_attributes", c_size_t),
    )


class PJRT_TopologyDescription_Fingerprint_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    fingerprint: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("fingerprint", c_uint64),
    )


class PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    memory_space_kind_id: int
    dims: int | None
    num_dims: int
    element_type: int
    layout: int | None
    serialized_shape: int | None
    serialized_shape_size: int
    serialized_shape_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("memory_space_kind_id", c_int32),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("element_type", c_int32),
        ("layout", c_void_p),
        ("serialized_shape", c_void_p),
        ("serialized_shape_size", c_size_t),
        ("serialized_shape_deleter", c_void_p),
    )


class PJRT_TopologyDescription_GetMemorySpaceKindIds_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    memory_space_kind_ids: int | None
    num_memory_space_kind_ids: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("memory_space_kind_ids", c_void_p),
        ("num_memory_space_kind_ids", c_size_t),
    )


class PJRT_Compile_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology: int | None
    program: int | None
    compile_options: int | None
    compile_options_size: int
    client: int | None
    executable: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology", c_void_p),
        ("program", c_void_p),
        ("compile_options", c_void_p),
        ("compile_options_size", c_size_t),
        ("client", c_void_p),
        ("executable", c_void_p),
    )


class PJRT_Layouts_MemoryLayout_Destroy_Args(Structure):
    struct_size: int
    extension_start: int | None
    layout: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("layout", c_void_p),
    )


class PJRT_Layouts_MemoryLayout_Serialize_Args(Structure):
    struct_size: int
    extension_start: int | None
    layout: int | None
    serialized_bytes: int | None
    serialized_bytes_size: int
    serialized_layout: int | None
    serialized_layout_deleter: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("layout", c_void_p),
        ("serialized_bytes", c_void_p),
        ("serialized_bytes_size", c_size_t),
        ("serialized_layout", c_void_p),
        ("serialized_layout_deleter", c_void_p),
    )


class PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args(Structure):
    struct_size: int
    extension_start: int | None
    buffer: int | None
    layout: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("buffer", c_void_p),
        ("layout", c_void_p),
    )


class PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args(Structure):
    struct_size: int
    extension_start: int | None
    client: int | None
    type: int
    dims: int | None
    num_dims: int
    layout: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("client", c_void_p),
        ("type", c_int32),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("layout", c_void_p),
    )


class PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args(Structure):
    struct_size: int
    extension_start: int | None
    topology_description: int | None
    type: int
    dims: int | None
    num_dims: int
    layout: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("topology_description", c_void_p),
        ("type", c_int32),
        ("dims", c_void_p),
        ("num_dims", c_size_t),
        ("layout", c_void_p),
    )


class PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_outputs: int
    layouts: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_outputs", c_size_t),
        ("layouts", c_void_p),
    )


class PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args(Structure):
    struct_size: int
    extension_start: int | None
    executable: int | None
    num_parameters: int
    layouts: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("executable", c_void_p),
        ("num_parameters", c_size_t),
        ("layouts", c_void_p),
    )


class PJRT_Profiler_Extension(Structure):
    base: PJRT_Extension_Base
    profiler_api: int | None
    traceme_context_id: int
    _fields_ = (
        ("base", PJRT_Extension_Base),
        ("profiler_api", c_void_p),
        ("traceme_context_id", c_int64),
    )


class PLUGIN_Profiler_Api(Structure):
    struct_size: int
    priv: int | None
    error_destroy: int | None
    error_message: int | None
    error_get_code: int | None
    create: int | None
    destroy: int | None
    start: int | None
    stop: int | None
    collect_data: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("priv", c_void_p),
        ("error_destroy", c_void_p),
        ("error_message", c_void_p),
        ("error_get_code", c_void_p),
        ("create", c_void_p),
        ("destroy", c_void_p),
        ("start", c_void_p),
        ("stop", c_void_p),
        ("collect_data", c_void_p),
    )


class PLUGIN_Profiler_Error_Destroy_Args(Structure):
    struct_size: int
    priv: int | None
    error: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("priv", c_void_p),
        ("error", c_void_p),
    )


class PLUGIN_Profiler_Error_Message_Args(Structure):
    struct_size: int
    priv: int | None
    error: int | None
    message: int | None
    message_size: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("priv", c_void_p),
        ("error", c_void_p),
        ("message", c_void_p),
        ("message_size", c_size_t),
    )


class PLUGIN_Profiler_Error_GetCode_Args(Structure):
    struct_size: int
    priv: int | None
    error: int | None
    code: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("priv", c_void_p),
        ("error", c_void_p),
        ("code", c_int32),
    )


class PLUGIN_Profiler_Create_Args(Structure):
    struct_size: int
    options: int | None
    options_size: int
    profiler: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("options", c_void_p),
        ("options_size", c_size_t),
        ("profiler", c_void_p),
    )


class PLUGIN_Profiler_Destroy_Args(Structure):
    struct_size: int
    profiler: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("profiler", c_void_p),
    )


class PLUGIN_Profiler_Start_Args(Structure):
    struct_size: int
    profiler: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("profiler", c_void_p),
    )


class PLUGIN_Profiler_Stop_Args(Structure):
    struct_size: int
    profiler: int | None
    _fields_ = (
        ("struct_size", c_size_t),
        ("profiler", c_void_p),
    )


class PLUGIN_Profiler_CollectData_Args(Structure):
    struct_size: int
    profiler: int | None
    buffer: int | None
    buffer_size_in_bytes: int
    _fields_ = (
        ("struct_size", c_size_t),
        ("profiler", c_void_p),
        ("buffer", c_void_p),
        ("buffer_size_in_bytes", c_size_t),
    )


TABLES = {
    "PJRT_Api": (
        "PJRT_Error_Destroy",
        "PJRT_Error_Message",
        "PJRT_Error_GetCode",
        "PJRT_Plugin_Initialize",
        "PJRT_Plugin_Attributes",
        "PJRT_Event_Destroy",
        "PJRT_Event_IsReady",
        "PJRT_Event_Error",
        "PJRT_Event_Await",
        "PJRT_Event_OnReady",
        "PJRT_Client_Create",
        "PJRT_Client_Destroy",
        "PJRT_Client_PlatformName",
        "PJRT_Client_ProcessIndex",
        "PJRT_Client_PlatformVersion",
        "PJRT_Client_Devices",
        "PJRT_Client_AddressableDevices",
        "PJRT_Client_LookupDevice",
        "PJRT_Client_LookupAddressableDevice",
        "PJRT_Client_AddressableMemories",
        "PJRT_Client_Compile",
        "PJRT_Client_DefaultDeviceAssignment",
        "PJRT_Client_BufferFromHostBuffer",
        "PJRT_DeviceDescription_Id",
        "PJRT_DeviceDescription_ProcessIndex",
        "PJRT_DeviceDescription_Attributes",
        "PJRT_DeviceDescription_Kind",
        "PJRT_DeviceDescription_DebugString",
        "PJRT_DeviceDescription_ToString",
        "PJRT_Device_GetDescription",
        "PJRT_Device_IsAddressable",
        "PJRT_Device_LocalHardwareId",
        "PJRT_Device_AddressableMemories",
        "PJRT_Device_DefaultMemory",
        "PJRT_Device_MemoryStats",
        "PJRT_Memory_Id",
        "PJRT_Memory_Kind",
        "PJRT_Memory_DebugString",
        "PJRT_Memory_ToString",
        "PJRT_Memory_AddressableByDevices",
        "PJRT_Executable_Destroy",
        "PJRT_Executable_Name",
        "PJRT_Executable_NumReplicas",
        "PJRT_Executable_NumPartitions",
        "PJRT_Executable_NumOutputs",
        "PJRT_Executable_SizeOfGeneratedCodeInBytes",
        "PJRT_Executable_GetCostAnalysis",
        "PJRT_Executable_OutputMemoryKinds",
        "PJRT_Executable_OptimizedProgram",
        "PJRT_Executable_Serialize",
        "PJRT_LoadedExecutable_Destroy",
        "PJRT_LoadedExecutable_GetExecutable",
        "PJRT_LoadedExecutable_AddressableDevices",
        "PJRT_LoadedExecutable_Delete",
        "PJRT_LoadedExecutable_IsDeleted",
        "PJRT_LoadedExecutable_Execute",
        "PJRT_Executable_DeserializeAndLoad",
        "PJRT_LoadedExecutable_Fingerprint",
        "PJRT_Buffer_Destroy",
        "PJRT_Buffer_ElementType",
        "PJRT_Buffer_Dimensions",
        "PJRT_Buffer_UnpaddedDimensions",
        "PJRT_Buffer_DynamicDimensionIndices",
        "PJRT_Buffer_GetMemoryLayout",
        "PJRT_Buffer_OnDeviceSizeInBytes",
        "PJRT_Buffer_Device",
        "PJRT_Buffer_Memory",
        "PJRT_Buffer_Delete",
        "PJRT_Buffer_IsDeleted",
        "PJRT_Buffer_CopyToDevice",
        "PJRT_Buffer_ToHostBuffer",
        "PJRT_Buffer_IsOnCpu",
        "PJRT_Buffer_ReadyEvent",
        "PJRT_Buffer_UnsafePointer",
        "PJRT_Buffer_IncreaseExternalReferenceCount",
        "PJRT_Buffer_DecreaseExternalReferenceCount",
        "PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
        "PJRT_CopyToDeviceStream_Destroy",
        "PJRT_CopyToDeviceStream_AddChunk",
        "PJRT_CopyToDeviceStream_TotalBytes",
        "PJRT_CopyToDeviceStream_GranuleSize",
        "PJRT_CopyToDeviceStream_CurrentBytes",
        "PJRT_TopologyDescription_Create",
        "PJRT_TopologyDescription_Destroy",
        "PJRT_TopologyDescription_PlatformName",
        "PJRT_TopologyDescription_PlatformVersion",
        "PJRT_TopologyDescription_GetDeviceDescriptions",
        "PJRT_TopologyDescription_Serialize",
        "PJRT_TopologyDescription_Attributes",
        "PJRT_Compile",
        "PJRT_Executable_OutputElementTypes",
        "PJRT_Executable_OutputDimensions",
        "PJRT_Buffer_CopyToMemory",
        "PJRT_Client_CreateViewOfDeviceBuffer",
        "PJRT_Executable_Fingerprint",
        "PJRT_Client_TopologyDescription",
        "PJRT_Executable_GetCompiledMemoryStats",
        "PJRT_Memory_Kind_Id",
        "PJRT_ExecuteContext_Create",
        "PJRT_ExecuteContext_Destroy",
        "PJRT_Buffer_CopyRawToHost",
        "PJRT_AsyncHostToDeviceTransferManager_Destroy",
        "PJRT_AsyncHostToDeviceTransferManager_TransferData",
        "PJRT_Client_CreateBuffersForAsyncHostToDevice",
        "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer",
        "PJRT_AsyncHostToDeviceTransferManager_Device",
        "PJRT_AsyncHostToDeviceTransferManager_BufferCount",
        "PJRT_AsyncHostToDeviceTransferManager_BufferSize",
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
        "PJRT_AsyncHostToDeviceTransferManager_AddMetadata",
        "PJRT_Client_DmaMap",
        "PJRT_Client_DmaUnmap",
        "PJRT_Client_CreateUninitializedBuffer",
        "PJRT_Client_UpdateGlobalProcessInfo",
        "PJRT_TopologyDescription_Deserialize",
        "PJRT_Client_CreateAliasBuffer",
        "PJRT_Client_FulfillAliasBuffer",
        "PJRT_LoadedExecutable_GetDeviceAssignment",
        "PJRT_Client_CreateErrorBuffer",
        "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
        "PJRT_Buffer_CopyRawToHostFuture",
        "PJRT_Device_PoisonExecution",
        "PJRT_Device_CreateAsyncTrackingEvent",
        "PJRT_AsyncTrackingEvent_Destroy",
        "PJRT_Executable_GetCompileOptions",
        "PJRT_Buffer_DonateWithControlDependency",
        "PJRT_Event_Create",
        "PJRT_Event_Set",
        "PJRT_Device_GetAttributes",
        "PJRT_Client_Load",
        "PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
        "PJRT_Buffer_Bitcast",
        "PJRT_Error_ForEachPayload",
        "PJRT_TopologyDescription_Fingerprint",
        "PJRT_Executable_ParameterMemoryKinds",
        "PJRT_Device_ClearMemoryStats",
        "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace",
        "PJRT_TopologyDescription_GetMemorySpaceKindIds",
    ),
    "PJRT_Layouts_Extension": (
        "PJRT_Layouts_MemoryLayout_Destroy",
        "PJRT_Layouts_MemoryLayout_Serialize",
        "PJRT_Layouts_PJRT_Client_GetDefaultLayout",
        "PJRT_Layouts_PJRT_Buffer_MemoryLayout",
        "PJRT_Layouts_PJRT_Topology_GetDefaultLayout",
        "PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
        "PJRT_Layouts_PJRT_Executable_GetParameterLayouts",
    ),
}
STRUCTS: tuple[type[Structure], ...] = (
    PJRT_Extension_Base,
    PJRT_Api_Version,
    PJRT_Error_Destroy_Args,
    PJRT_Error_Message_Args,
    PJRT_Error_FunctionTable,
    PJRT_Error,
    PJRT_Error_GetCode_Args,
    PJRT_Error_ForEachPayload_Args,
    PJRT_NamedValue,
    PJRT_Plugin_Initialize_Args,
    PJRT_Plugin_Attributes_Args,
    PJRT_Event_Destroy_Args,
    PJRT_Event_IsReady_Args,
    PJRT_Event_Error_Args,
    PJRT_Event_Await_Args,
    PJRT_Event_OnReady_Args,
    PJRT_Event_Create_Args,
    PJRT_Event_Set_Args,
    PJRT_Memory_FunctionTable,
    PJRT_Memory,
    PJRT_Client_Create_Args,
    PJRT_Client_Destroy_Args,
    PJRT_Client_PlatformName_Args,
    PJRT_Client_ProcessIndex_Args,
    PJRT_Client_PlatformVersion_Args,
    PJRT_Client_TopologyDescription_Args,
    PJRT_Client_Devices_Args,
    PJRT_Client_AddressableDevices_Args,
    PJRT_Client_LookupDevice_Args,
    PJRT_Client_LookupAddressableDevice_Args,
    PJRT_Client_AddressableMemories_Args,
    PJRT_Program,
    PJRT_Client_Compile_Args,
    PJRT_Client_Load_Args,
    PJRT_Client_DefaultDeviceAssignment_Args,
    PJRT_Buffer_MemoryLayout_Tiled,
    PJRT_Buffer_MemoryLayout_Strides,
    PJRT_Buffer_MemoryLayout,
    PJRT_Client_CreateUninitializedBuffer_Args,
    PJRT_Client_CreateErrorBuffer_Args,
    PJRT_Client_BufferFromHostBuffer_Args,
    PJRT_Client_CreateViewOfDeviceBuffer_Args,
    PJRT_ShapeSpec,
    PJRT_DeviceDescription_Id_Args,
    PJRT_DeviceDescription_ProcessIndex_Args,
    PJRT_DeviceDescription_Attributes_Args,
    PJRT_DeviceDescription_Kind_Args,
    PJRT_DeviceDescription_DebugString_Args,
    PJRT_DeviceDescription_ToString_Args,
    PJRT_Device_GetDescription_Args,
    PJRT_Device_IsAddressable_Args,
    PJRT_Device_LocalHardwareId_Args,
    PJRT_Device_AddressableMemories_Args,
    PJRT_Device_DefaultMemory_Args,
    PJRT_Device_MemoryStats_Args,
    PJRT_Device_ClearMemoryStats_Args,
    PJRT_Device_GetAttributes_Args,
    PJRT_Memory_Id_Args,
    PJRT_Memory_Kind_Args,
    PJRT_Memory_Kind_Id_Args,
    PJRT_Memory_DebugString_Args,
    PJRT_Memory_ToString_Args,
    PJRT_Memory_AddressableByDevices_Args,
    PJRT_ExecuteContext_Create_Args,
    PJRT_ExecuteContext_Destroy_Args,
    PJRT_Executable_Destroy_Args,
    PJRT_LoadedExecutable_Destroy_Args,
    PJRT_LoadedExecutable_GetExecutable_Args,
    PJRT_LoadedExecutable_GetDeviceAssignment_Args,
    PJRT_Executable_Name_Args,
    PJRT_Executable_NumReplicas_Args,
    PJRT_Executable_NumPartitions_Args,
    PJRT_LogicalDeviceIds,
    PJRT_LoadedExecutable_AddressableDevices_Args,
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args,
    PJRT_Executable_OptimizedProgram_Args,
    PJRT_LoadedExecutable_Delete_Args,
    PJRT_LoadedExecutable_IsDeleted_Args,
    PJRT_ExecuteOptions,
    PJRT_LoadedExecutable_Execute_Args,
    PJRT_Executable_NumOutputs_Args,
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
    PJRT_Executable_Fingerprint_Args,
    PJRT_Executable_GetCostAnalysis_Args,
    PJRT_Executable_GetCompiledMemoryStats_Args,
    PJRT_Executable_OutputElementTypes_Args,
    PJRT_Executable_OutputDimensions_Args,
    PJRT_Executable_ParameterMemoryKinds_Args,
    PJRT_Executable_OutputMemoryKinds_Args,
    PJRT_Executable_Serialize_Args,
    PJRT_Executable_GetCompileOptions_Args,
    PJRT_LoadOptions,
    PJRT_Executable_DeserializeAndLoad_Args,
    PJRT_LoadedExecutable_Fingerprint_Args,
    PJRT_Buffer_Destroy_Args,
    PJRT_Buffer_ElementType_Args,
    PJRT_Buffer_Dimensions_Args,
    PJRT_Buffer_UnpaddedDimensions_Args,
    PJRT_Buffer_DynamicDimensionIndices_Args,
    PJRT_Buffer_GetMemoryLayout_Args,
    PJRT_Buffer_ToHostBuffer_Args,
    PJRT_Buffer_OnDeviceSizeInBytes_Args,
    PJRT_Buffer_Delete_Args,
    PJRT_Buffer_IsDeleted_Args,
    PJRT_Buffer_CopyRawToHost_Args,
    PJRT_Buffer_CopyRawToHostFuture_Args,
    PJRT_Buffer_CopyToDevice_Args,
    PJRT_Buffer_CopyToMemory_Args,
    PJRT_Buffer_Bitcast_Args,
    PJRT_Buffer_IsOnCpu_Args,
    PJRT_Buffer_Device_Args,
    PJRT_Buffer_Memory_Args,
    PJRT_Buffer_ReadyEvent_Args,
    PJRT_Buffer_UnsafePointer_Args,
    PJRT_Buffer_IncreaseExternalReferenceCount_Args,
    PJRT_Buffer_DecreaseExternalReferenceCount_Args,
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
    PJRT_TopologyDescription_Create_Args,
    PJRT_TopologyDescription_Destroy_Args,
    PJRT_TopologyDescription_PlatformVersion_Args,
    PJRT_TopologyDescription_PlatformName_Args,
    PJRT_TopologyDescription_GetDeviceDescriptions_Args,
    PJRT_TopologyDescription_Serialize_Args,
    PJRT_TopologyDescription_Deserialize_Args,
    PJRT_TopologyDescription_Attributes_Args,
    PJRT_TopologyDescription_Fingerprint_Args,
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args,
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args,
    PJRT_Compile_Args,
    PJRT_Layouts_MemoryLayout_Destroy_Args,
    PJRT_Layouts_MemoryLayout_Serialize_Args,
    PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args,
    PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args,
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args,
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args,
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args,
    PJRT_Profiler_Extension,
    PLUGIN_Profiler_Api,
    PLUGIN_Profiler_Error_Destroy_Args,
    PLUGIN_Profiler_Error_Message_Args,
    PLUGIN_Profiler_Error_GetCode_Args,
    PLUGIN_Profiler_Create_Args,
    PLUGIN_Profiler_Destroy_Args,
    PLUGIN_Profiler_Start_Args,
    PLUGIN_Profiler_Stop_Args,
    PLUGIN_Profiler_CollectData_Args,
)
