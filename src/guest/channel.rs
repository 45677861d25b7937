//! Channels between a guest's agent and its host, and the transport of the guest's devices.

/// The driver of a port of a virtio serial device.
pub(crate) const PORT: &str = "virtio_console";

/// Way in which a guest's kernel finds its virtio devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// On a bus of PCI.
    Pci,
    /// At addresses that its command line names.
    Mmio,
}

impl Transport {
    /// The driver.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Self::Pci => "virtio_pci",
            Self::Mmio => "virtio_mmio",
        }
    }
}

/// Channel between the agent in a guest and its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Channel {
    /// By a port of a virtio serial device.
    #[default]
    Port,
    /// By virtio-vsock: the agent calls this port of the host's.
    Vsock(u32),
    /// By a console of Xen's, with this number.
    Console(u32),
}

impl Channel {
    /// The drivers in the guest's kernel: that of its devices, and its own.
    pub(crate) fn modules(self, transport: Transport) -> Vec<&'static str> {
        let own = self.module();
        let transport = own.map(|_| transport.module());
        transport.into_iter().chain(own).collect()
    }

    /// The driver beside that; a domain of Xen's has neither, and its kernel all that it takes.
    pub(crate) fn module(self) -> Option<&'static str> {
        match self {
            Self::Port => Some(PORT),
            Self::Vsock(_) => Some("vmw_vsock_virtio_transport"),
            Self::Console(_) => None,
        }
    }
}
