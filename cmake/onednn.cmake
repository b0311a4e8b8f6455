# Defines the target trireme_onednn when oneDNN 3 is available, and TRIREME_ONEDNN_STATUS for the report.
set(TRIREME_ONEDNN_STATUS "not used")
